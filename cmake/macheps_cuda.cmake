# SPDX-License-Identifier: Apache-2.0
# Sets MACHEPS_HAS_CUDA. With MACHEPS_CUDA=AUTO, CUDA is used if nvcc is found: through CUDACXX, on the path, or in
# /usr/local/cuda/bin.
option(MACHEPS_CUDA_QUICK "Compile device code ten times faster. It runs slower but gives bit-identical results" OFF)
set(MACHEPS_HAS_CUDA FALSE)
if(NOT MACHEPS_CUDA STREQUAL "OFF")
    include(CheckLanguage)
    if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
        find_program(MACHEPS_NVCC nvcc HINTS /usr/local/cuda/bin)
        if(MACHEPS_NVCC)
            set(CMAKE_CUDA_COMPILER ${MACHEPS_NVCC})
        endif()
    endif()
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
        # The first two architectures together cover every code path of the device code. The last one is for GPUs newer
        # than sm_90.
        if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
            set(CMAKE_CUDA_ARCHITECTURES 80-virtual 90a-real)
            if(NOT MACHEPS_CUDA_QUICK)
                list(APPEND CMAKE_CUDA_ARCHITECTURES 90-virtual)
            endif()
        endif()
        enable_language(CUDA)
        find_package(CUDAToolkit REQUIRED)
        set(MACHEPS_HAS_CUDA TRUE)
        if(MACHEPS_CUDA_QUICK AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13.0)
            add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:--Ofast-compile=max;-Xptxas=-suppress-stack-size-warning>")
            set(CMAKE_CUDA_FLAGS_RELEASE -DNDEBUG)  # no -O3: the host code of these files only launches kernels
        endif()
    elseif(MACHEPS_CUDA STREQUAL "ON")
        message(FATAL_ERROR "MACHEPS_CUDA=ON, but nvcc was not found. Install the CUDA toolkit or set CUDACXX.")
    endif()
endif()
message(STATUS "macheps: CUDA parts ${MACHEPS_HAS_CUDA}")

# macheps_cuda(target): sets the compile options of files with kernels. --extended-lambda is needed because kernels are
# lambdas (emulation/gpu/device/threads.hpp). --diag-suppress=554 silences the warning that a conversion operator can
# never be called (from a view of constants to itself, core/tensor.hpp). -fmacro-prefix-map shortens the file names in
# error messages to paths relative to the source tree.
function(macheps_cuda target)
    target_compile_options(${target} PRIVATE
        $<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>
        "$<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda;--diag-suppress=554;-Xcompiler=-Wall,-Wextra,-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>")
    target_link_libraries(${target} PRIVATE CUDA::cudart_static)
endfunction()
