# SPDX-License-Identifier: Apache-2.0
# Precompiles external headers that nearly every file includes. Reading these headers takes a third of the compile time.
# With a compiler cache, precompiling saves no time, and the cache would need special settings to accept precompiled
# headers. No file may rely on this option: each file includes the headers that it uses, and compiles without the
# option.
option(MACHEPS_PRECOMPILE "Precompile the external headers that nearly every file includes (not useful with a compiler cache)" OFF)

set(macheps_common_headers <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <filesystem> <fstream> <functional> <map>
    <memory> <mutex> <optional> <set> <span> <sstream> <string> <string_view> <thread> <utility> <vector>)

# macheps_precompiled(name LIBRARIES libs... HEADERS headers... OPTIONS options...): adds the targets `name` and
# `name`_pic. Other targets reuse their precompiled headers.
function(macheps_precompiled name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBRARIES;HEADERS;OPTIONS")
    if(NOT MACHEPS_PRECOMPILE)
        return()
    endif()
    foreach(target ${name} ${name}_pic)
        add_library(${target} OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/cmake/precompiled.cpp)
        target_link_libraries(${target} PRIVATE macheps_own_flags ${arg_LIBRARIES})
        target_compile_options(${target} PRIVATE ${arg_OPTIONS})
        target_precompile_headers(${target} PRIVATE ${arg_HEADERS} ${macheps_common_headers})
    endforeach()
    set_target_properties(${name}_pic PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()

# macheps_precompile(target name): makes the target reuse the headers of macheps_precompiled(name ...). The compiler
# accepts precompiled headers only if the compile options match, so the parts of the Python module use `name`_pic.
function(macheps_precompile target name)
    if(TARGET ${name})
        string(REGEX REPLACE "_cold$" "" owner ${target})
        if(owner IN_LIST macheps_python_parts)
            string(APPEND name _pic)
        endif()
        target_precompile_headers(${target} REUSE_FROM ${name})
    endif()
endfunction()
