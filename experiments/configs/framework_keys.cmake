# SPDX-License-Identifier: Apache-2.0
# Compiles the lists of framework keys, which scripts/framework-keys writes, into the library.
set(framework_key_rows "")
foreach(framework accelerate axolotl deepspeed gpt-neox llamafactory megatron torchtune transformers trl verl)
    set(key_file ${CMAKE_CURRENT_LIST_DIR}/keys/${framework}.txt)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${key_file})
    file(READ ${key_file} key_text)
    string(APPEND framework_key_rows "    {\"${framework}\", R\"keys(${key_text})keys\"},\n")
endforeach()
configure_file(${CMAKE_CURRENT_LIST_DIR}/framework_key_text.cpp.in ${CMAKE_CURRENT_BINARY_DIR}/framework_key_text.cpp @ONLY)
target_sources(macheps_configs PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/framework_key_text.cpp)
