// SPDX-License-Identifier: Apache-2.0
#include "emulation/backend.hpp"

#include "core/error.hpp"
#include "emulation/adam.hpp"

namespace macheps {

void Backend::draw(std::string_view operation, const Cast& cast, std::int64_t count) {
    if (cast.round != Round::stochastic) return;
    if (!cast.can_draw()) {
        throw Error({.what = "stochastic rounding has no random bits",
                     .where = std::string(operation),
                     .fix = "set the key of the cast, and random_bits from 1 to 32",
                     .exit = Exit::usage});
    }
    if (draws_ != nullptr && count > 0) draws_->push_back({cast.key, static_cast<std::uint64_t>(count)});
}

void Backend::draw(const Matmul& args) {
    draw("matmul", args.out_cast, args.batch_outer * args.batch_inner * args.m * args.n);
}

void Backend::draw(const AdamW& args, std::int64_t count) {
    draw("adamw", args.value_cast, count);
    if (args.arithmetic == fp32) draw("adamw", args.update_cast, count);
    draw("adamw", args.moment1_cast, count);
    draw("adamw", args.moment2_cast, count);
}

void Backend::draw(const Adam& args, std::int64_t count) {
    draw("adam", args.value_cast, count);
    draw("adam", args.moment1_cast, count);
    draw("adam", args.moment2_cast, count);
}

void Backend::draw(const Sgd& args, std::int64_t count) {
    draw("sgd", args.value_cast, count);
    draw("sgd", args.update_cast, count);
}

}  // namespace macheps
