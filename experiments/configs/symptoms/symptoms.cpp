// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/symptoms/symptoms.hpp"

#include <array>

namespace macheps::configs {

namespace {

constexpr std::array symptom_tables{
    &deepspeed_symptoms, &transformers_symptoms, &accelerate_symptoms, &axolotl_symptoms, &llamafactory_symptoms,
    &megatron_symptoms,  &torch_symptoms,        &library_symptoms,    &word_symptoms,    &setting_symptoms};

}  // namespace

std::vector<const SymptomRow*> symptom_rows() {
    std::vector<const SymptomRow*> rows;
    for (const auto table : symptom_tables) {
        for (const SymptomRow& row : table()) rows.push_back(&row);
    }
    return rows;
}

}  // namespace macheps::configs
