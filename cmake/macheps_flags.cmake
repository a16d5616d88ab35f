# SPDX-License-Identifier: Apache-2.0
# Compile flags of every target. The bits contract forbids contraction and fast-math. The flags therefore come with the
# headers, also in the installed package (macheps::flags). CMake 3.25 does not know nvcc's option for C++20, so it is
# written out for targets that do not set CUDA_STANDARD themselves.
add_library(macheps_flags INTERFACE)
add_library(macheps::flags ALIAS macheps_flags)
target_compile_features(macheps_flags INTERFACE cxx_std_20)
target_compile_options(macheps_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>
    $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false -Xcompiler=-ffp-contract=off>
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<NOT:$<BOOL:$<TARGET_PROPERTY:CUDA_STANDARD>>>>:-std=c++20>)

# Additional flags for the targets of this tree. Users of the headers do not get them.
add_library(macheps_own_flags INTERFACE)
target_link_libraries(macheps_own_flags INTERFACE macheps_flags)
target_compile_options(macheps_own_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${MACHEPS_WERROR}>>:-Werror>)
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
