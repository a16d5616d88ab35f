# SPDX-License-Identifier: Apache-2.0
# Compile flags of every target. Results have to be the same bits everywhere (README, "The bits contract"), so the
# compiler must not contract a * b + c to fma (and core/hd.hpp rejects -ffast-math). The headers contain arithmetic too.
# Every user of the headers therefore gets the flags, also from the installed package (macheps::flags). CMake 3.25 does
# not know nvcc's option for C++20, so -std=c++20 is added for targets that do not set CUDA_STANDARD themselves.
add_library(macheps_flags INTERFACE)
add_library(macheps::flags ALIAS macheps_flags)
target_compile_features(macheps_flags INTERFACE cxx_std_20)
target_compile_options(macheps_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>
    $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false -Xcompiler=-ffp-contract=off>
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<NOT:$<BOOL:$<TARGET_PROPERTY:CUDA_STANDARD>>>>:-std=c++20>)

# Additional flags for the targets of this source tree. Users of the headers do not get these flags.
add_library(macheps_own_flags INTERFACE)
target_link_libraries(macheps_own_flags INTERFACE macheps_flags)
target_compile_options(macheps_own_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${MACHEPS_WERROR}>>:-Werror>)
if(MACHEPS_SIMD STREQUAL "none")
    target_compile_definitions(macheps_own_flags INTERFACE MACHEPS_NO_VECTORS)
endif()
# -g1: line tables are enough for a sanitizer report, and full debug information for the vector kernels takes GCC
# minutes. -O1: with sanitizers, GCC 12 takes a minute for the largest kernel, and five minutes at -O2.
if(MACHEPS_SANITIZE)
    target_compile_options(macheps_own_flags INTERFACE
        $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${MACHEPS_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1 -O1>)
    target_link_options(macheps_own_flags INTERFACE -fsanitize=${MACHEPS_SANITIZE})
endif()
if(MACHEPS_FUZZ)
    target_compile_options(macheps_own_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)
    target_link_options(macheps_own_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
