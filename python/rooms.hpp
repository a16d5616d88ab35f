// SPDX-License-Identifier: Apache-2.0
// Functions that module.cpp calls. Other source files of the module define them.
#pragma once
#include <nanobind/nanobind.h>

namespace macheps::python {

void add_casts(nanobind::module_& m);
void add_checks(nanobind::module_& m);
void add_policies(nanobind::module_& m);
void add_products(nanobind::module_& m);
void add_tables(nanobind::module_& m);

// engine.cpp
void begin_anew_after_fork();
void wait_for_jobs_aside();

}  // namespace macheps::python
