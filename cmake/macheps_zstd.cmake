# SPDX-License-Identifier: Apache-2.0
# macheps_zstd: an interface library. If zstd is found, it links zstd and defines MACHEPS_HAS_ZSTD. The header and the
# library are searched directly because Debian's package has no CMake file. Without zstd, traces are plain JSON Lines.
add_library(macheps_zstd INTERFACE)
find_path(MACHEPS_ZSTD_INCLUDE zstd.h)
find_library(MACHEPS_ZSTD_LIBRARY zstd)
if(MACHEPS_ZSTD_INCLUDE AND MACHEPS_ZSTD_LIBRARY)
    target_include_directories(macheps_zstd SYSTEM INTERFACE ${MACHEPS_ZSTD_INCLUDE})
    target_link_libraries(macheps_zstd INTERFACE ${MACHEPS_ZSTD_LIBRARY})
    target_compile_definitions(macheps_zstd INTERFACE MACHEPS_HAS_ZSTD)
else()
    message(STATUS "macheps: zstd not found; traces are written uncompressed, and compressed traces cannot be replayed")
endif()
