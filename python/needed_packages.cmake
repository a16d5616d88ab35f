# SPDX-License-Identifier: Apache-2.0
# Users of `pip install .` should not have to read CMake errors. This file reports all missing packages in one message,
# with the command that installs them.
function(macheps_python_needs)
    set(missing)
    foreach(pair fmt:fmt hwy:hwy tomlplusplus:tomlplusplus nlohmann_json:nlohmann-json yaml-cpp:yaml-cpp CLI11:CLI11 ZLIB:zlib)
        string(REGEX REPLACE ":.*" "" package ${pair})
        string(REGEX REPLACE ".*:" "" name ${pair})
        find_package(${package} QUIET)
        if(NOT ${package}_FOUND)
            list(APPEND missing ${name})
        endif()
    endforeach()
    find_path(MACHEPS_BOOST_HEADERS boost/multiprecision/cpp_bin_float.hpp)
    if(NOT MACHEPS_BOOST_HEADERS)
        list(APPEND missing boost)
    endif()
    if(missing)
        list(JOIN missing ", " missing)
        message(FATAL_ERROR "
macheps needs the C++ packages ${missing} to build. On Debian or Ubuntu:
    apt-get install g++ cmake ninja-build libfmt-dev libhwy-dev libtomlplusplus-dev \\
        nlohmann-json3-dev libyaml-cpp-dev libcli11-dev libboost-dev libzstd-dev zlib1g-dev
(and libflint-arb-dev on Debian 12 or libflint-dev on Ubuntu 24.04 for `macheps eval`)
or install a wheel of a release: pip install macheps-*.whl
")
    endif()
endfunction()
macheps_python_needs()

# Libraries that the module links. They are compiled as position-independent code.
set(macheps_python_parts macheps_core macheps_emulation macheps_reports macheps_files macheps_study macheps_check macheps_check_kernels
    macheps_policy macheps_configs macheps_training)
