// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/sweep/results/status.hpp"

#include "core/host/publish.hpp"
#include "core/host/read_file.hpp"
#include "experiments/training/sweep/attempt.hpp"
#include "experiments/training/sweep/store/layout.hpp"

#include <charconv>
#include <set>

namespace macheps::training {

namespace {

UnitStatus status_of_unit(const Sweep& sweep, std::size_t index, const std::filesystem::path& out,
                          const std::set<std::string>& begun) {
    const std::string& id = sweep.units[index].id;
    UnitStatus status{.unit = index, .host = {}, .what = {}};
    if (is_done(out, id)) {
        status.state = UnitState::done;
        return status;
    }
    if (begun.contains(id)) {
        const std::vector<int> attempts = attempts_at(out, id);
        status.attempts = static_cast<int>(attempts.size());
        if (!attempts.empty()) {
            const std::filesystem::path folder = attempt_folder(out, id, attempts.back());
            const UnitProgress progress = progress_in(folder);
            status.state = UnitState::begun, status.runs = progress.runs, status.step = progress.step;
            if (const auto note = read_attempt_note(folder)) status.host = note->host;
        }
    }
    if (const std::optional<Failure> failure = read_failure(out, id)) {
        status.state = UnitState::failed, status.host = failure->host, status.what = failure->what;
    }
    return status;
}

}  // namespace

std::string_view to_string(UnitState state) {
    switch (state) {
        case UnitState::done:
            return "done";
        case UnitState::begun:
            return "begun";
        case UnitState::failed:
            return "failed";
        case UnitState::missing:
            break;
    }
    return "missing";
}

std::vector<UnitStatus> status_of(const Sweep& sweep, const std::filesystem::path& out) {
    std::set<std::size_t> wanted;
    for (const SweepRun& run : runs_of(sweep)) wanted.insert(run.unit);
    std::set<std::string> begun;
    for (const std::string& name : names_in(out / "work")) begun.insert(name.substr(0, name.find('.')));
    std::vector<UnitStatus> all;
    for (const std::size_t unit : wanted) all.push_back(status_of_unit(sweep, unit, out, begun));
    return all;
}

int shard_count(const std::filesystem::path& out) {
    const std::optional<std::string> found = read_if_there(out / shards_file, 100);
    if (!found) return 1;
    const std::string& text = *found;
    int count = 1;
    std::from_chars(text.data(), text.data() + text.size(), count);
    return count < 1 || count > max_shards ? 1 : count;
}

void remember_shard_count(const std::filesystem::path& out, int count) {
    std::error_code error;
    if (std::filesystem::exists(out / shards_file, error) && shard_count(out) == count) return;
    publish(out / shards_file, std::to_string(count) + "\n");
}

}  // namespace macheps::training
