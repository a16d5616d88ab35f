# SPDX-License-Identifier: Apache-2.0
# Compiles the presets into the library. `policy list` and reports use the order of this list: the baseline first.
set(presets fp32 tf32 amp-fp16 amp-bf16 fp16-noscale static-1024 pure-bf16 pure-bf16-sr pure-fp16 infer-fp16 fp8-tensorwise
    a100-amp-fp16 a100-amp-bf16 h100-tf32 h100-amp-fp16 h100-amp-bf16 h100-fp8-fast h100-fp8-promoted b200-amp-bf16 b200-fp8 b200-mxfp8 b200-mxfp4
    b200-nvfp4
    te-delayed te-current te-block te-mxfp8 te-nvfp4 ao-tensorwise ao-rowwise ao-rowwise-gw-hp ao-mxfp8-rceil ao-mxfp8-floor
    ao-mxfp8-even ao-mxfp8-ceil dsv3 mx-microxcaling e5m2-direct cpu-autocast-bf16 cpu-autocast-bf16-amx
    lf-fp8-as-executed lf-fp8-as-documented)

set(preset_rows "")
foreach(preset IN LISTS presets)
    set(preset_file ${CMAKE_CURRENT_LIST_DIR}/presets/${preset}.toml)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${preset_file})
    file(READ ${preset_file} preset_text)
    string(APPEND preset_rows "    {\"${preset}\", R\"toml(${preset_text})toml\"},\n")
endforeach()
configure_file(${CMAKE_CURRENT_LIST_DIR}/presets.cpp.in ${CMAKE_CURRENT_BINARY_DIR}/presets.cpp @ONLY)
target_sources(macheps_policy PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/presets.cpp)
