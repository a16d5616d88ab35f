# SPDX-License-Identifier: Apache-2.0
# Prints a header as Doxygen reads it; scripts/doxygen/Doxyfile names this filter. The comment at the top becomes the
# comment of the file, followed by the line that includes it. An .inl file replaces the #include that names it, and the
# macros that the header defines for it are expanded. In docs/reference.md a header's name becomes a link, and the link
# to the Python package leads to its pages.

function use_words(line, word) {
    for (word in words) gsub(word, words[word], line)
    return line
}

function print_inl(path, line, is_top) {
    is_top = 1
    while ((getline line < path) > 0) {
        if (is_top && line ~ /^\/\//) continue
        is_top = 0
        print use_words(line)
    }
    close(path)
}

FILENAME ~ /\.md$/ {
    while (match($0, /`[a-z0-9_\/]+\.hpp`/)) {
        $0 = substr($0, 1, RSTART - 1) substr($0, RSTART + 1, RLENGTH - 2) substr($0, RSTART + RLENGTH)
    }
    gsub(/\.\.\/python\/README\.md/, "../python/index.html")
    print
    next
}

FNR == 1 {
    name = FILENAME
    root = ENVIRON["PWD"] "/"
    if (index(name, root) == 1) name = substr(name, length(root) + 1)
    is_top = 1
    print "/// @file"
    next
}
is_top && /^\/\// {
    print "/" $0
    next
}
is_top {
    is_top = 0
    print "/// @par <tt>\\#include \"" name "\"</tt>"
    if (/^#pragma once/) next
}

/^#define MACHEPS_MATH_/ {
    words[$2] = $3 == "MACHEPS_HD" ? "inline" : $3
    next
}
/^#undef MACHEPS_MATH_/ {
    delete words[$2]
    next
}
/^#include ".*\.inl"/ {
    path = $2
    gsub(/"/, "", path)
    print_inl(path)
    next
}
{ print }
