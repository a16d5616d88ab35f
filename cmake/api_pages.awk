# SPDX-License-Identifier: Apache-2.0
# awk -v out=FOLDER -v root=TREE/ -f api_pages.awk TREE/core/float.hpp ...: a page in Markdown for each header, out of the
# comment on its top and the comments that begin with ///, and README.md, which lists the pages.

function trimmed(text) {
    sub(/^[ \t]+/, "", text)
    sub(/[ \t]+$/, "", text)
    return text
}

# A declaration is over where its body begins, or ends on the same line.
function is_over(text) { return text ~ /[;{}]$/ }

function put(text) { print text > page }

function finish() {
    if (page != "") close(page)
}

function begin_page(name) {
    finish()
    page = out "/" name
    sub(/\.hpp$/, "", page)
    page = page ".md"
    put("# " name "\n")
    part = "top"
    doc = declaration = ""
    is_member = hidden = 0
    names[++count] = name
}

FNR == 1 {
    name = FILENAME
    if (index(name, root) == 1) name = substr(name, length(root) + 1)
    begin_page(name)
}

part == "top" {
    if ($0 ~ /^\/\/ SPDX/) next
    if ($0 ~ /^\/\//) {
        line = $0
        sub(/^\/\/ ?/, "", line)
        put(line)
        if (!(name in summary)) summary[name] = line
        else if (summary[name] !~ /[.:]$/) summary[name] = summary[name] " " line
        next
    }
    put("\n```cpp\n#include \"" name "\"\n```")
    part = "code"
}

{ line = trimmed($0) }

# ///< says what stands before it; its next lines too.
line ~ /\/\/\/</ {
    code = trimmed(substr(line, 1, index(line, "///<") - 1))
    text = trimmed(substr(line, index(line, "///<") + 4))
    is_private = code != "" ? code ~ /[A-Za-z0-9]_ *([=;{]|$)/ : is_private
    is_member = !is_private
    if (is_private) next
    if (code == "") put("  " text)
    else put("- `" code "` " text)
    next
}
line ~ /^\/\/\// {
    text = line
    sub(/^\/\/\/ ?/, "", text)
    if (is_member && doc == "" && $0 ~ /^ {20,}\/\/\//) { put("  " text); next }
    is_member = 0
    doc = doc (doc == "" ? "" : "\n") text
    next
}
{ is_member = 0 }
# What is for the library alone.
/^namespace (detail )?\{/ { hidden = 1 }
/^\}  \/\/ namespace( detail)?$/ { hidden = 0 }
hidden { doc = declaration = ""; next }
# A declaration of its own, with or without a comment; of members only those that have one.
doc == "" && declaration == "" && !/^(template|struct|class|enum|inline|constexpr|consteval|MACHEPS_HD|[A-Za-z_:]+[&*<]?[^=]* [a-z_0-9]+\()/ { next }
doc == "" && declaration == "" && /^(namespace|using|static_assert|extern|friend|return|typedef|#)/ { next }
line != "" && line !~ /^\/\// {
    declaration = declaration (declaration == "" ? "" : "\n") line
    # What a template or an attribute stands before is part of it.
    if (!is_over(line) || line ~ /^template *<.*> *$/) next
    if (declaration !~ /^enum .*;$/) sub(/( \{( .*)?|\{\{)$/, "", declaration)
    put("\n```cpp\n" declaration "\n```" (doc == "" ? "" : "\n" doc))
    doc = declaration = ""
}

END {
    finish()
    page = out "/README.md"
    put("# API\n\nOne page for each installed header, made from its comments.\n")
    room = ""
    for (i = 1; i <= count; ++i) {
        folder = names[i]
        sub(/\/.*/, "", folder)
        if (folder != room) put((room == "" ? "" : "\n") "## " folder "\n")
        room = folder
        link = names[i]
        sub(/\.hpp$/, ".md", link)
        text = summary[names[i]]
        if (match(text, /\.( |$)/)) text = substr(text, 1, RSTART)
        put("- [" names[i] "](" link "): " text)
    }
    finish()
}
