// SPDX-License-Identifier: Apache-2.0
// Captures of a library's outputs. They are written to a file where the library runs. The file can then be used like a
// library and matched with rules anywhere. Host only.
#pragma once
#include "core/text/json.hpp"
#include "emulation/evidence/library/match.hpp"
#include "emulation/evidence/library/probes.hpp"
#include "emulation/evidence/probe.hpp"
#include "emulation/matmul/reveal.hpp"

namespace macheps::evidence {

/// Amount of outputs to capture.
struct CaptureSize {
    int choices = 3;             ///< algorithms of a problem, the library's preferred ones first
    std::int64_t outputs = 512;  ///< per class of operands
};

/// Runs the library's algorithms for a problem on every class of operands, including special values, and keeps a grid
/// of rows x columns of the outputs. The preferred algorithm for half of the workspace is captured too, if it is
/// another one. `declined` gives the library's reason for offering no algorithm.
struct CapturedProblem {
    evidence::Capture capture{};
    int algorithms = 0;
    std::uint64_t outputs = 0;
    std::string chosen{};  ///< the first algorithm
    std::string declined{};
};
CapturedProblem capture_library(MatmulLibrary& library, const LibraryProblem& problem, std::uint64_t seed,
                                const CaptureSize& size = {});

/// One algorithm of a capture.
struct RecordedAlgorithm {
    LibraryAlgorithm algorithm{};
    std::int64_t workspace = 0;
    bool varies = false;                                                ///< a second run returned other bits
    std::vector<std::pair<std::string, std::vector<float>>> outputs{};  ///< by class: rows x columns
};

/// The content of a capture file.
struct RecordedLibrary {
    LibraryProblem problem{};
    std::string library{}, architecture{}, gpu{}, driver{}, toolkit{}, date{};
    std::uint64_t seed = 0;
    std::vector<std::int64_t> rows{}, columns{};
    std::vector<RecordedAlgorithm> algorithms{};
};

/// Returns whether the header is that of a capture of a library.
bool is_library_capture(const Json& header);
/// Parses a capture. Errors: throws Error that names `where` and the line if the text is not valid.
RecordedLibrary parse_library_capture(std::string_view text, const std::string& where);

/// Returns the recorded outputs as a plan. `match_library` compares only the recorded outputs.
std::unique_ptr<LibraryPlan> recorded_plan(const RecordedLibrary& recorded, std::size_t algorithm);

/// Order of a library's sum, as FPRev revealed it.
struct RecordedTree {
    std::string problem{}, algorithm{};  ///< the name of the problem, the algorithm in words
    std::string library{}, architecture{}, gpu{};
    int slices = 1;
    SumTree tree{};
};

/// Writes the order of a library's sum to a file.
evidence::Capture tree_capture(const LibraryProblem& problem, const LibraryAlgorithm& algorithm,
                               const MatmulLibrary& library, const SumTree& tree);
bool is_tree_capture(const Json& header);
/// Errors: as parse_library_capture.
RecordedTree parse_tree_capture(std::string_view text, const std::string& where);
/// Gives one row of the kind `replay`, which compares the recorded order with that of the claimed rule.
void replay_tree(const RecordedTree& recorded, const evidence::ProbeSink& sink);

/// Gives the same rows as the probe of the problem where the library runs, but of the kind `replay`.
void replay_library(const RecordedLibrary& recorded, const evidence::ProbeSink& sink);

}  // namespace macheps::evidence
