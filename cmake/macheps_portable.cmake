# SPDX-License-Identifier: Apache-2.0
# MACHEPS_PORTABLE is for a program that is copied to other Linux systems, such as a cluster on which nobody can install
# packages. The program needs the libraries of glibc 2.28 or later (RHEL 8, Debian 10, Ubuntu 20.04) and no others.
option(MACHEPS_PORTABLE "Link the program so that it needs only glibc 2.28 (x86-64; without Arb)" OFF)
set(macheps_portable_glibc 2.28)
set(macheps_portable_stubs ${PROJECT_BINARY_DIR}/glibc-${macheps_portable_glibc})

# fmt and toml++ are compiled into the program from their headers, because Debian has no static libraries of them. The
# other libraries are linked statically. Arb is left out: Debian has no static library of it, and one under the LGPL must
# be replaceable. `macheps eval` then names the program that has Arb.
if(MACHEPS_PORTABLE)
    set(MACHEPS_ARB OFF)
    set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
    set(CMAKE_FIND_LIBRARY_SUFFIXES .a)  # zlib and zstd
    find_package(fmt REQUIRED)
    find_package(tomlplusplus REQUIRED)
    find_package(yaml-cpp REQUIRED)
    set_target_properties(fmt::fmt PROPERTIES INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY=1)
    set_target_properties(tomlplusplus::tomlplusplus PROPERTIES INTERFACE_COMPILE_OPTIONS -DTOML_HEADER_ONLY=1)
    find_library(MACHEPS_YAML_CPP_STATIC yaml-cpp REQUIRED)
    set_target_properties(yaml-cpp PROPERTIES IMPORTED_LOCATION_NONE ${MACHEPS_YAML_CPP_STATIC})
    execute_process(
        COMMAND ${PROJECT_SOURCE_DIR}/scripts/glibc-stubs ${macheps_portable_glibc} ${macheps_portable_stubs}
                --compiler ${CMAKE_CXX_COMPILER}
        COMMAND_ERROR_IS_FATAL ANY)
endif()

# Link options of a portable program; portable_test.sh reads this line. libpthread and libdl are named because they
# are parts of libc.so.6 on this system, but not in glibc 2.28.
set(macheps_portable_options -static-libstdc++ -static-libgcc -Wl,--wrap=__libc_start_main -Wl,--gc-sections -Wl,--no-as-needed,-l:libpthread.so.0,-l:libdl.so.2,--as-needed)

# macheps_portable(program): links a program against the stubs of the old glibc. glibc_2_28.cpp has the functions that
# the compiler's libraries need and that glibc 2.28 lacks.
function(macheps_portable program)
    if(NOT MACHEPS_PORTABLE)
        return()
    endif()
    target_sources(${program} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/glibc_2_28.cpp)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/cmake/glibc_2_28.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    target_link_options(${program} PRIVATE -L${macheps_portable_stubs} ${macheps_portable_options})
endfunction()
