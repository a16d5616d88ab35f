# SPDX-License-Identifier: Apache-2.0
# What every target obeys. The bits contract forbids contraction and fast-math, so those flags travel with the headers,
# into the installed package too (macheps::flags). CMake 3.25 does not know nvcc's name for C++20: the flag is written out
# for targets that ask for no CUDA standard themselves.
add_library(macheps_flags INTERFACE)
add_library(macheps::flags ALIAS macheps_flags)
target_compile_features(macheps_flags INTERFACE cxx_std_20)
target_compile_options(macheps_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>
    $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false -Xcompiler=-ffp-contract=off>
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<NOT:$<BOOL:$<TARGET_PROPERTY:CUDA_STANDARD>>>>:-std=c++20>)

# What this tree's own targets add; consumers of the headers never see it.
add_library(macheps_own_flags INTERFACE)
target_link_libraries(macheps_own_flags INTERFACE macheps_flags)
target_compile_options(macheps_own_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${MACHEPS_WERROR}>>:-Werror>)
# Line tables are enough for a report, and full debug information of the vector kernels takes GCC minutes.
if(MACHEPS_SANITIZE)
    target_compile_options(macheps_own_flags INTERFACE
        $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${MACHEPS_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1>)
    target_link_options(macheps_own_flags INTERFACE -fsanitize=${MACHEPS_SANITIZE})
endif()
if(MACHEPS_FUZZ)
    target_compile_options(macheps_own_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)
    target_link_options(macheps_own_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
