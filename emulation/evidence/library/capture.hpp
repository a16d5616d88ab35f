// SPDX-License-Identifier: Apache-2.0
// Captures of the outputs of a library. A capture is a file that is written where the library runs. On any other
// machine, the file can then take the place of the library, and its outputs can be matched with rules. Host only.
#pragma once
#include "core/text/json.hpp"
#include "emulation/evidence/library/match.hpp"
#include "emulation/evidence/library/probes.hpp"
#include "emulation/evidence/probe.hpp"
#include "emulation/matmul/reveal.hpp"

namespace macheps::evidence {

/// Limits on the contents of a capture.
struct CaptureSize {
    int choices = 3;             ///< maximum number of algorithms per problem
    std::int64_t outputs = 512;  ///< approximate number of outputs per class of operands
};

/// Result of capture_library().
struct CapturedProblem {
    evidence::Capture capture{};
    int algorithms = 0;
    std::uint64_t outputs = 0;
    std::string chosen{};    ///< the first algorithm
    std::string declined{};  ///< the library's reason if nothing was captured
};
/// Runs the algorithms that the library prefers for a problem, each on every class of operands, including special
/// values. Keeps the outputs at selected rows and columns. Then asks the library for its preferred algorithm with half
/// of the workspace, and captures this algorithm if it is different.
CapturedProblem capture_library(MatmulLibrary& library, const LibraryProblem& problem, std::uint64_t seed,
                                const CaptureSize& size = {});

/// One algorithm of a capture.
struct RecordedAlgorithm {
    LibraryAlgorithm algorithm{};
    std::int64_t workspace = 0;
    bool varies = false;                                                ///< a second run returned other bits
    std::vector<std::pair<std::string, std::vector<float>>> outputs{};  ///< for each class, its name and its outputs
};

/// The content of a capture file.
struct RecordedLibrary {
    LibraryProblem problem{};
    std::string library{}, architecture{}, gpu{}, driver{}, toolkit{}, date{};
    std::uint64_t seed = 0;
    std::vector<std::int64_t> rows{}, columns{};
    std::vector<RecordedAlgorithm> algorithms{};
};

/// Returns whether `header` belongs to a capture of a library.
bool is_library_capture(const Json& header);
/// Parses a capture. Errors: throws Error that names `where` and the line if the text is not valid.
RecordedLibrary parse_library_capture(std::string_view text, const std::string& where);

/// Returns a plan that gives the recorded outputs of an algorithm instead of computing them. match_library() then
/// compares only the outputs that were recorded.
std::unique_ptr<LibraryPlan> recorded_plan(const RecordedLibrary& recorded, std::size_t algorithm);

/// Order in which a library adds, as found by FPRev (emulation/matmul/reveal.hpp).
struct RecordedTree {
    std::string problem{}, algorithm{};  ///< the name of the problem, and a description of the algorithm
    std::string library{}, architecture{}, gpu{};
    int slices = 1;
    SumTree tree{};
};

/// Returns a capture that contains the order in which a library adds.
evidence::Capture tree_capture(const LibraryProblem& problem, const LibraryAlgorithm& algorithm,
                               const MatmulLibrary& library, const SumTree& tree);
bool is_tree_capture(const Json& header);
/// Parses a capture of an order of summation. Errors: the same as those of parse_library_capture().
RecordedTree parse_tree_capture(std::string_view text, const std::string& where);
/// Emits one row of the kind `replay`, which compares the recorded order with the order of the claimed rule.
void replay_tree(const RecordedTree& recorded, const evidence::ProbeSink& sink);

/// Emits the rows that the problem's probe emits on a machine with the library, but with the kind `replay`.
void replay_library(const RecordedLibrary& recorded, const evidence::ProbeSink& sink);

}  // namespace macheps::evidence
