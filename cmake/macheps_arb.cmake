# SPDX-License-Identifier: Apache-2.0
# Finds Arb, a library for ball arithmetic. Arb is part of FLINT 3 (Ubuntu 24.04: libflint-dev) and was a separate
# library before (Debian 12: libflint-arb-dev). Sets MACHEPS_HAS_ARB, and sets macheps_arb_libraries to the names of the
# libraries to link. They include gmp, because inline functions of FLINT call gmp. Without Arb, `macheps eval` only
# reports which package to install.
option(MACHEPS_ARB "Use Arb (FLINT) if it is found; `macheps eval` needs it" ON)
set(MACHEPS_HAS_ARB OFF)
set(macheps_arb_libraries)
if(MACHEPS_ARB)
    find_path(MACHEPS_FLINT_INCLUDE flint/fmpq.h)
    find_path(MACHEPS_ARB_INCLUDE NAMES flint/arb_hypgeom.h arb_hypgeom.h)
    find_library(MACHEPS_FLINT_LIBRARY flint)
    find_library(MACHEPS_ARB_LIBRARY NAMES flint-arb arb)
    if(MACHEPS_FLINT_INCLUDE AND MACHEPS_ARB_INCLUDE AND MACHEPS_FLINT_LIBRARY)
        if(EXISTS ${MACHEPS_ARB_INCLUDE}/flint/arb_hypgeom.h)
            set(macheps_arb_libraries flint gmp)
        elseif(MACHEPS_ARB_LIBRARY)
            cmake_path(GET MACHEPS_ARB_LIBRARY STEM arb_name)
            string(REGEX REPLACE "^lib" "" arb_name ${arb_name})
            set(macheps_arb_libraries ${arb_name} flint gmp)
        endif()
    endif()
    if(macheps_arb_libraries)
        set(MACHEPS_HAS_ARB ON)
    endif()
endif()
if(NOT MACHEPS_HAS_ARB)
    message(STATUS "macheps: Arb not found; `macheps eval` needs it (Debian 12: libflint-arb-dev; Ubuntu 24.04: libflint-dev)")
endif()
