# SPDX-License-Identifier: Apache-2.0
# macheps_native(out): sets `out` to the preprocessor definition that restricts the kernels to one set of vector
# instructions: the best that this machine supports (MACHEPS_ONLY_AVX2 or MACHEPS_ONLY_AVX512). If the machine supports
# neither, `out` is empty. If the program later runs on a machine without these instructions, it uses the scalar code,
# which computes the same results.
function(macheps_native out)
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -march=native -dM -E -x c++ /dev/null OUTPUT_VARIABLE macros ERROR_QUIET)
    set(avx2 AVX2 FMA BMI BMI2 F16C LZCNT)
    set(avx512 ${avx2} AVX512F AVX512VL AVX512DQ AVX512BW AVX512CD)
    set(${out} "" PARENT_SCOPE)
    foreach(level avx2 avx512)
        set(has_all TRUE)
        foreach(word IN LISTS ${level})
            if(NOT macros MATCHES "#define __${word}__ 1")
                set(has_all FALSE)
            endif()
        endforeach()
        if(has_all)
            string(TOUPPER ${level} level)
            set(${out} MACHEPS_ONLY_${level} PARENT_SCOPE)
        endif()
    endforeach()
endfunction()
