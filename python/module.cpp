// SPDX-License-Identifier: Apache-2.0
// The extension module. Its functions fill arrays and return text. Users call the Python package around it.
#include "core/host/version.hpp"
#include "core/text/shown.hpp"
#include "python/engine.hpp"
#include "python/rooms.hpp"

#include <nanobind/stl/string.h>

namespace macheps::python {

namespace {

/// Raises macheps.Error, a class of the Python package with the attributes what, where and fix.
void raise(const Error& error) {
    const nb::object type = nb::module_::import_("macheps._errors").attr("Error");
    const auto text = [](const std::string& part) {
        return shown(part, longest_error);
    };  // valid UTF-8 without control characters or CI log commands
    const nb::object made = type(text(error.parts().what), text(error.parts().where), text(error.parts().fix));
    PyErr_SetObject(type.ptr(), made.ptr());
}

}  // namespace

}  // namespace macheps::python

NB_MODULE(_core, m) {
    namespace nb = nanobind;
    using namespace macheps::python;
    m.doc() = "The C++ library of the package macheps. Call the package, which converts arrays and checks arguments.";
    nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
        try {
            std::rethrow_exception(thrown);
        } catch (const macheps::Error& error) {
            macheps::python::raise(error);
        }
    });
    m.def("version", &macheps::version);
    m.def("git_revision", &macheps::git_revision);
    m.def("threads", &threads);
    m.def("set_threads", &set_threads, nb::arg("count"));
    m.def("begin_anew_after_fork", &begin_anew_after_fork);
    m.def("wait_for_jobs_aside", &wait_for_jobs_aside);
    m.def("has_sse4_2", [] {
#if defined(__x86_64__)
        return __builtin_cpu_supports("sse4.2") != 0;
#else
        return true;
#endif
    });
    m.def("simd", [] { return std::string(macheps::simd_name(macheps::chosen_simd())); });
    add_casts(m);
    add_checks(m);
    add_policies(m);
    add_products(m);
    add_tables(m);
}
