// SPDX-License-Identifier: Apache-2.0
// Tests the readers of TOML files, Python assignments, command lines and shell scripts. Bash 5.2.15 expands the
// training commands to the expected words, except those with line ends of Windows, which bash does not accept.
#include "core/error.hpp"
#include "experiments/files/config/value.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <ctime>
#include <string>
#include <string_view>

namespace script_reader_test {

using namespace macheps;
using namespace macheps::files;

namespace {

/// Returns a value in the style of JSON. Texts have no quotes.
std::string shown(const ConfigValue& value) {
    std::string text;
    if (value.is_null()) return "null";
    if (value.is_number()) return fmt::format("{}", value.number);
    if (value.is_boolean()) return value.boolean ? "true" : "false";
    if (value.is_list()) {
        for (const ConfigValue& item : value.items) text += (text.empty() ? "" : ",") + shown(item);
        return "[" + text + "]";
    }
    if (!value.is_map()) return value.written;
    for (const ConfigValue::Entry& entry : value.entries)
        text += fmt::format("{}{}={}", text.empty() ? "" : " ", entry.key, shown(entry.value));
    return "{" + text + "}";
}

std::string command_of(std::string_view text) { return shown(read_command_config(text, "x.sh").root); }
std::string python_of(std::string_view text) { return shown(read_python_config(text, "x.py").root); }

template <class Read>
std::string refusal(Read read) {
    try {
        read();
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::bad_input);
        return error.what();
    }
    return {};
}

std::string command_refusal(std::string_view text) {
    return refusal([&] { read_command_config(text, "x.sh"); });
}

/// Returns the unknown values as "key: written".
std::string unknown_of(const ConfigFile& file) {
    std::string text;
    for (const UnknownValue& one : file.unknown_values)
        text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", one.path, one.written);
    return text;
}

}  // namespace

TEST_CASE("a TOML file becomes a tree in the order of the file, with the place of every value", "[config]") {
    const ConfigFile file = read_toml_config(
        "# a comment\n[training]\ndtype = \"bfloat16\"\nsteps = 1_000\n[a.b]\nlist = [1, 2.5, true]\nday = "
        "2026-01-02\n",
        "x.toml");
    CHECK(shown(file.root) == "{training={dtype=bfloat16 steps=1000} a={b={list=[1,2.5,true] day=2026-01-02}}}");
    CHECK(to_string(file.root.find("training.dtype")->place) == "x.toml:3:9");
    CHECK(to_string(file.root.entry("training")->value.entry("steps")->place) == "x.toml:4:1");
    CHECK(file.root.find("training.steps")->written == "1_000");
    CHECK(file.root.find("training.dtype")->quoted);
    CHECK(shown(read_toml_config("\xef\xbb\xbf"
                                 "a = 1\r\nb = 'x'\r\n",
                                 "x.toml")
                    .root) == "{a=1 b=x}");
}

TEST_CASE("invalid TOML is refused with its place", "[config]") {
    const auto says = [](std::string_view text) { return refusal([&] { read_toml_config(text, "x.toml"); }); };
    CHECK(says("a = \"open\nb = 1\n").starts_with("x.toml:1:"));
    CHECK(says("a = 1\na = 2\n").starts_with("x.toml:2:"));
    CHECK(says("a = 1\n---\n").starts_with("x.toml:2:"));
    CHECK(says("a = \xc3\xa9\n").starts_with("x.toml:1:5: a character outside ASCII"));
    CHECK_FALSE(says(std::string(100'000, '[')).empty());
    CHECK_FALSE(says(std::string_view("a = 1\0b", 7)).empty());
}

TEST_CASE("Python assignments of literals and of their arithmetic are read", "[config]") {
    struct Case {
        const char *text, *tree, *why;
    };
    const Case cases[] = {
        {"a = 1\nb = 'x' # no\n", "{a=1 b=x}", "comments end a value"},
        {"batch_size = 5 * 8", "{batch_size=40}", "arithmetic"},
        {"a = 6e-4\nb = a / 10", "{a=0.0006 b=5.9999999999999995e-05}", "names that are known; Python's division"},
        {"a = 7 // 2\nb = -7 // 2\nc = -7 % 3\nd = 2 ** 10\ne = -2 ** 2", "{a=3 b=-4 c=2 d=1024 e=-4}",
         "Python's rules"},
        {"a = (1 + 2) * 3\nb = 1_000\nc = 0x10", "{a=9 b=1000 c=16}", "parentheses, underscores, hexadecimal numbers"},
        {"a = True\nb = None\nc = \"it's\"\nd = 'a' \"b\"", "{a=true b=null c=it's d=ab}", "other literals"},
        {"a = [1, 2, # one\n  3]\nb = (1, 'x',)\nc = {'k': [True]}", "{a=[1,2,3] b=[1,x] c={k=[true]}}", "brackets"},
        {"a = 1 + \\\n  2\nb = 3; c = 4", "{a=3 b=3 c=4}", "joined and separated lines"},
        {"'''about\nx = 3\n'''\na = 1\r\nb = 2\r\n", "{a=1 b=2}", "a documentation string, and line ends of Windows"},
        {"a = 1\na = 2", "{a=2}", "the later assignment counts"},
        {"a = ('x')\nb = ((\n'y'\n'z'))\nc = ('x',)\nd = ()\ne = [('x')]\nf = ([1])",
         "{a=x b=yz c=[x] d=[] e=[x] f=[1]}", "only a comma makes a tuple"},
        {"a: int = 4\nb: 'str' = 'x'\nc : Literal[  # =\n'=', \"#\"] = None\nd: int\ne: int  # = 3\nf = a * 2",
         "{a=4 b=x c=null f=8}", "assignments with types"},
        {"a = 0xE\nb = a // 2\nc = 1e1\nd = c // 4\ne = (0xE) // 4", "{a=14 b=7 c=10 d=2 e=3}", "integers"},
    };
    for (const Case& one : cases) {
        CAPTURE(one.text, one.why);
        CHECK(python_of(one.text) == one.tree);
        CHECK(unknown_of(read_python_config(one.text, "x.py")).empty());
    }
    CHECK(read_python_config("a = 5 * 8", "x.py").root.find("a")->written == "40");
    CHECK(read_python_config("a = 0xE\nb = a // 2", "x.py").root.find("b")->written == "7");
    CHECK(read_python_config("a = 1e1\nb = a // 4", "x.py").root.find("b")->written == "2.0");
    CHECK(unknown_of(read_python_config("a: int = f()", "x.py")) == "a: f()");
    CHECK(unknown_of(read_python_config("a = ('x') + 'y'", "x.py")) == "a: ('x') + 'y'");
    CHECK(to_string(read_python_config("a = 1\n\nb =  2", "x.py").root.find("b")->place) == "x.py:3:6");
}

TEST_CASE("a Python expression has an unknown value, and a file with other statements is a program", "[config]") {
    for (const char* value :
         {"'a' if x else 'b'", "f()", "1 / 0", "10 ** 400", "f'{a}'", "x", "[1, f()]", "1 +", "010"}) {
        CAPTURE(value);
        const ConfigFile file = read_python_config(fmt::format("a = {}  # why\nb = 1", value), "x.py");
        CHECK(unknown_of(file) == fmt::format("a: {}", value));
        CHECK(shown(file.root) == "{a=null b=1}");
    }
    const ConfigFile program = read_python_config("import torch.nn\nfrom unsloth import F\na = 1\nprint(a)\n", "x.py");
    REQUIRE(program.python_statement);
    CHECK(to_string(*program.python_statement) == "x.py:4:1");
    CHECK(program.python_modules == std::vector<std::string>{"torch.nn", "unsloth"});
    for (const char* text : {"a, b = 1, 2", "for i in []:\n  pass", "def f():\n  x = 1", "a.b = 1", "a += 1",
                             "try:\n  a = 1", "if x: a = 1", "else: a = 1", "a.b: int = 1", "a == 1"}) {
        CAPTURE(text);
        CHECK(read_python_config(text, "x.py").python_statement);
    }
    CHECK(refusal([] { read_python_config("a = 'open\n", "x.py"); }) ==
          "x.py:1:5: a quote is not closed (close the string)");
    CHECK(refusal([] { read_python_config("a = [1,\n", "x.py"); }) ==
          "x.py:1:5: a bracket is not closed (close the bracket)");
}

TEST_CASE("the words of a training command are expanded as a shell does", "[config]") {
    struct Case {
        const char *text, *tree, *why;
    };
    const Case cases[] = {
        {"torchrun --nproc_per_node 8 \\\n  t.py --bf16 True --x 1 2\n", "{bf16=true x=[1,2]}", "continued lines"},
        {"A=1\nB=\"--b $A\"\npython t.py --a ${A} $B", "{a=1 b=1}", "an unquoted expansion splits into words"},
        {"B='x y'\npython t.py --a \"$B\" --b '$B'", "{a=x y b=$B}", "quotes"},
        {"python t.py --a ${A:-3} --b \"${B-x y}\" --c ${C:=4} --d $C", "{a=3 b=x y c=4 d=4}", "defaults"},
        {"A=\npython t.py --a ${A:-3} --b ${A-3} --c 1", "{a=3 b=true c=1}",
         "an empty value is a value only without the colon"},
        {"A=(--bf16\n  # no\n  --x 1)\nA+=(--y \"2 3\")\ntorchrun t.py \"${A[@]}\"", "{bf16=true x=1 y=2 3}", "arrays"},
        {"A=(1 2)\npython t.py --a \"${A[@]}\" --b \"${A[*]}\"", "{a=[1,2] b=1 2}",
         "an array as words, and as one word"},
        {"A=(--a 1)\nA=--b\nA+=c\npython t.py \"${A[@]}\"", "{bc=1}", "an array without an index is its first item"},
        {"python t.py --a ${X:-\"x y\"} --b \"${X:-'z'}\" --c ${X:-'1 2'}", "{a=x y b='z' c=1 2}",
         "quotes around a default"},
        {"C=${X:-'z'}\nD=\"${X:-\"u v\"}\"\npython t.py --a $C --b \"$D\" --c \"$'\"", "{a=z b=u v c=$'}",
         "quotes in assignments and in double quotes"},
        {"A=(1 2)\nB=${A[@]}\nC=\"${A[@]}x\"\npython t.py --b \"$B\" --c \"$C\"", "{b=1 2 c=1 2x}",
         "an array in an assignment"},
        {"A={1,2}\npython t.py --a $A --b a{1} --c '{1,2}'", "{a={1,2} b=a{1} c={1,2}}", "braces that stay"},
        {"A=1\nA+=2\nexport B=$A\npython t.py --b $B", "{b=12}", "appended texts and exports"},
        {"N=4\npython t.py --g $((32 / N / $N)) --h $(( 2 + 3 * N ))", "{g=2 h=14}", "arithmetic of integers"},
        {"A='1 + 1'\nB=-3\npython t.py --a $(($A * 2)) --b $((B * ${B}))", "{a=3 b=9}", "text inside arithmetic"},
        {"E=()\npython t.py --a \"${E[@]}\" --b x\"${E[@]}\" --c \"${E[*]}\" --d \"$E\" --e \"\"",
         "{a=true b=x c= d= e=}", "an array without items is no word"},
        {"E=()\nE+=()\nE+=x\nF=()\nF=y\npython t.py --a \"${E[@]}\" --b $F", "{a=x b=y}",
         "texts added to arrays without items"},
        {"A=(1 2)\nread -d '' B <<EOF\nx ${A[@]} $A\nEOF\npython t.py --b \"$B\"", "{b=x 1 2 1}",
         "an array in a here-document"},
        {"set -ex -o pipefail\nset -- --bf16 True 'a b'\npython t.py \"$@\" --b \"x$*\" --c $2 --d \"${3}\" --e "
         "${4:-z}",
         "{bf16=[true,a b] b=x--bf16 True a b c=true d=a b e=z}", "the arguments that `set` gives"},
        {"set a --bf16 True\nshift\npython t.py $@ --n \"$3\"", "{bf16=true n=}", "`shift`"},
        {"CUDA_VISIBLE_DEVICES=0 srun -N 2 torchrun t.py --a 1 2>&1 | tee log.txt", "{a=1}",
         "wrappers and redirections"},
        {"set -x\necho $HOME\npython -m pip install x\naccelerate launch --multi_gpu --mixed_precision=bf16 t.py --a 1",
         "{a=1}", "other commands"},
        {"python3 -m torch.distributed.run --standalone t.py --a 1", "{a=1}", "a launcher that is a module"},
        {"python t.py --optimizer_args eps=1e-7 weight_decay=0 --lr 1",
         "{optimizer_args=[eps=1e-7,weight_decay=0] lr=1}", "a list of assignments"},
        {"python t.py --a=1 x.yaml --b 2 3", "{a=1 b=[2,3]}", "an option with `=` takes no further words"},
        {"python t.py --multirun a.b=1 c=2", "{multirun=true a={b=1} c=2}", "an override after a flag of Hydra"},
        {"python t.py --config-dir d a.b=1 --lr 1", "{config-dir=d lr=1 a={b=1}}", "an override after another value"},
        {"python -m verl.trainer.main_ppo a.b=1 +a.c=x '++d=[1,2]'", "{a={b=1 c=x} d=[1,2]}", "overrides of Hydra"},
        {"deepspeed -q --log_level info --num_gpus 2 t.py --a 1", "{a=1}", "options of DeepSpeed's launcher"},
        {"torchrun --shutdown_timeout 30 --virtual-local-rank t.py --a 1", "{a=1}",
         "options of new releases of torchrun"},
        {"python -Wignore -uXdev -um torch.distributed.run t.py --a 1", "{a=1}", "options of one letter in one word"},
        {"python --version\npython3 -V\ntorchrun --help\npython - <<E\nx\nE\npython -c'x'\npython t.py --a 1", "{a=1}",
         "commands that print something or have no script"},
        {"python -Z prepare.py\ntorchrun t.py --a 1", "{a=1}", "an unknown option of another command"},
        {"/usr/bin/env python t.py --a 1", "{a=1}", "`env`"},
        {"env -i ls\nenv -i python a.py\ntorchrun t.py --a 1", "{a=1}", "options of `env` before other commands"},
        {"env A=/usr/bin/python B=x.py torchrun t.py --a 1", "{a=1}", "paths in the variables of `env`"},
        {"python -i -X dev --check-hash-based-pycs never t.py --a 1", "{a=1}", "options of Python"},
        {"tune run --nproc_per_node 2 full_finetune --config llama batch_size=4", "{config=llama batch_size=4}",
         "a subcommand"},
        {"uv run train.py --a 1", "{a=1}", "a script after a wrapper"},
        {"read -r -d '' C <<EOF\nt.py --a 1 \\\n  --b 2\nEOF\nif [[ ${1} != \"slurm\" ]]; then\n  deepspeed $C\nfi",
         "{a=1 b=2}", "a here-document in a variable; a command after a condition"},
        {"if [ -d x ]; then\n  mkdir y\nelse\n  echo no\nfi\npython t.py --a 1", "{a=1}",
         "an `if` that changes no word"},
        {"{ A=1; }\n{\n  A=2\n} && true\n[ -d x ] && { true; }\npython t.py --a $A", "{a=2}",
         "groups that nothing decides"},
        {"cat > job.sh <<-EOF\n\ttorchrun a.py --x 1\n\tEOF\npython t.py --a 1", "{a=1}",
         "the lines of a here-document are not commands"},
        {"python t.py --a 1 \"$@\"", "{a=1}", "the arguments of the script are left out"},
        {"python t.py \\\r\n  --a 1\r\n", "{a=1}", "line ends of Windows"},
        {"python t.py --a={x} --b -1 --lr 1e-5", "{a={x} b=-1 lr=1e-05}", "braces and negative numbers"},
    };
    for (const Case& one : cases) {
        CAPTURE(one.text, one.why);
        CHECK(command_of(one.text) == one.tree);
    }
}

TEST_CASE("the parts of a training command and its places are recorded", "[config]") {
    const ConfigFile file = read_command_config(
        "export A=1\nB=2 accelerate launch --config_file f.yaml \\\n   --num-processes 8 src/t.py c.yaml --bf16 True",
        "x.sh");
    REQUIRE(file.command);
    CHECK(file.command->launcher == "accelerate launch");
    CHECK(file.command->programs == std::vector<std::string>{"src/t.py"});
    CHECK(shown(file.command->launcher_options) == "{config_file=f.yaml num_processes=8}");
    CHECK(file.command->environment.at("A") == "1");
    CHECK(file.command->environment.at("B") == "2");
    REQUIRE(file.command->positional.size() == 1);
    CHECK(file.command->positional.front().written == "c.yaml");
    CHECK(to_string(file.root.find("bf16")->place) == "x.sh:3:45");
    CHECK(to_string(file.command->place) == "x.sh:2:1");
    const ConfigFile written = read_command_config(
        "S=1\ncat > ds.json <<EOF\n{\"stage\": $S}\nEOF\ndeepspeed t.py --deepspeed ds.json", "x.sh");
    CHECK(to_string(written.root.find("deepspeed")->place) == "x.sh:5:28");
    CHECK(written.written_files.at("ds.json").text == "\n\n{\"stage\": 1}\n");
    CHECK(find_written_file(written.written_files, "./x/../ds.json") != nullptr);
    CHECK(read_command_config("cat <<'EOF' >a\n$S\nEOF\npython t.py", "x.sh").written_files.at("a").text == "\n$S\n");
}

TEST_CASE("the files that a script writes before the command are known, or known to be unknown", "[config]") {
    struct Case {
        const char *text, *files, *why;
    };
    const Case cases[] = {
        {"cat > ./a <<E\nx\nE\npython t.py", "a=x\n", "a here-document"},
        {"cat > a <<-E\n\tx\n\t\ty\n\tE\npython t.py", "a=x\ny\n", "`<<-` removes tabs of all lines"},
        {"tee a <<E\nx\nE\npython t.py", "a=x\n", "`tee`"},
        {"cat > a <<E\nx\nE\npython t.py\ncat > a <<E\ny\nE", "a=x\n", "files that are written later"},
        {"> a\ncat >> a <<E\nx\nE\ncat >> a <<E\ny\nE\npython t.py > log", "a=x\ny\n", "added texts"},
        {"> a\npython t.py", "a=", "an empty file"},
        {"cat >> a <<E\nx\nE\npython t.py", "a?the script adds to a file that it did not begin", "an unknown begin"},
        {"if true; then\ncat > a <<E\nx\nE\nfi\npython t.py", "a?the `if` in line 1 decides whether it is written",
         "a condition"},
        {"[ -d x ] && cat <<E | tee a\nx\nE\npython t.py", "a?the test in line 1 decides whether it is written",
         "a condition of a pipeline"},
        {"cat > a <<E\n$X\nE\npython t.py", "a?`$X`: X has no value in this file", "an unknown text"},
        {"if true; then X=1; fi\ncat > a <<E\n$X\nE\npython t.py", "a?the `if` in line 1 decides a part of it",
         "a conditional text"},
        {"cat > a <<E\nx\nE\nsed s/x/y/ b > a\npython t.py", "a?it is the output of a command", "another command"},
        {"sed s/x/y/ b > a\ncat > a <<E\nx\nE\npython t.py", "a=x\n", "a file that is replaced"},
    };
    for (const Case& one : cases) {
        CAPTURE(one.text, one.why);
        std::string text;
        for (const auto& [path, file] : read_command_config(one.text, "x.sh").written_files) {
            const std::size_t start = std::min(file.text.find_first_not_of('\n'), file.text.size());
            text += file.unknown.empty() ? fmt::format("{}={}", path, file.text.substr(start))
                                         : fmt::format("{}?{}", path, file.unknown);
        }
        CHECK(text == one.files);
    }
}

TEST_CASE("the environment of a command has the exported variables and the assignments before it", "[config]") {
    struct Case {
        const char *text, *environment, *why;
    };
    const Case cases[] = {
        {"A=1\ndeclare B=2\nreadonly C=3\ntypeset D=4\npython t.py", "", "only `export` and -x export"},
        {"A=1\ndeclare -x B=2\nexport C=3 D\nD=4\nexport A\nA=5\npython t.py", "A=5 B=2 C=3 D=4", "exports"},
        {"export A=1 B=2 C=3\nexport -n A\ndeclare +x B\nunset C\npython t.py", "", "the end of an export"},
        {"export 'A=1 2' \"B\"=3\npython t.py", "A=1 2 B=3", "names in quotes"},
        {"set -a\nA=1\nset +a\nB=2\nset -o allexport\nC=3\npython t.py", "A=1 C=3", "`set -a`"},
        {"A=0 B=$X env A=1 B=2 C=$X python t.py", "A=1 B=2 C?$X", "`env`"},
        {"srun -n 1 env A=1 torchrun t.py", "A=1", "`env` after another program"},
        {"srun --export=ALL,A=1,B=2 torchrun t.py", "A=1 B=2", "`srun --export`"},
        {"mpirun -np 2 -x A=1 -x B python t.py\n", "A=1", "`mpirun -x`"},
        {"A=1 sudo -E A=2 torchrun t.py", "A=2", "`sudo`"},
        {"export A=(1 2)\nB=1 python t.py", "B=1", "arrays are not exported"},
        {"X=a\nX=b X+=c python t.py", "X=ac", "an assignment before a command that appends"},
        {"export A=1\nA=2 python t.py", "A=2", "an assignment before a command"},
        {"export A=$(cat a)\npython t.py", "A?$(cat a)", "unknown"},
        {"A=$X python t.py", "A?$X", "unknown before the command"},
        {"if true; then export A=1; fi\npython t.py", "A?the `if` in line 1 decides it", "conditional"},
        {"A=1\n[ -d x ] && export A\npython t.py", "A?the test in line 2 decides it", "conditionally exported"},
        {"export A=1\n[ -d x ] && unset A\npython t.py", "A?the test in line 2 decides it", "conditionally unset"},
        {"if true; then P=1; fi\nA=$P python t.py", "A?the `if` in line 1 decides it", "a conditional part"},
        {"declare -ix A=4/2\npython t.py", "A?$A", "an option changes the value"},
        {"export A\nlet A=2+3\nprintf -v B 1\nexport B\npython t.py", "A?$A B?$B", "computed values"},
        {"[ -d x ] && : ${A:=1}\nexport A\npython t.py", "A?the test in line 1 decides it", "a conditional default"},
        {"A=2\n[ -d x ] && A=\nexport B=${A:-1}\npython t.py", "B?the test in line 2 decides it",
         "a default of a conditional value"},
    };
    for (const Case& one : cases) {
        CAPTURE(one.text, one.why);
        const ConfigFile file = read_command_config(one.text, "x.sh");
        std::string text;
        for (const auto& [name, value] : file.command->environment)
            text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
        for (const UnknownValue& variable : file.command->unknown_environment) {
            text += fmt::format("{}{}?{}", text.empty() ? "" : " ", variable.path,
                                variable.written.empty() ? variable.reason : variable.written);
        }
        CHECK(text == one.environment);
    }
    CHECK(
        command_refusal("export $(xargs < .env)\npython t.py").starts_with("x.sh:1:8: a declaration of unknown names"));
    CHECK(command_refusal("export A$X=1\npython t.py").starts_with("x.sh:1:8: a declaration of unknown names"));
    CHECK(command_refusal("[ -d x ] && set -a\npython t.py").starts_with("x.sh:1:13: a `set -a` that depends"));
}

TEST_CASE("a word that only a run of the script would show is unknown", "[config]") {
    struct Case {
        const char *text, *unknown;
    };
    const Case cases[] = {
        {"python t.py --lr $(cat lr) --b 1", "lr: $(cat lr)"},
        {"python t.py --lr `cat lr`", "lr: `cat lr`"},
        {"python t.py --lr $LR", "lr: $LR"},
        {"python t.py --out /data/$1/x", "out: $1"},
        {"A=$(date)\npython t.py --out run-$A", "out: $(date)"},
        {"python t.py --a 1 $@", ": $@"},
        {"python -m m a.b=$X", "a.b: $X"},
        {"python -m m a.b=$X +a.b=1 a.c=2 a.c=$Y", "a.c: $Y"},
        {"python -m m a.b=1 ~a.b '~c/d=x' ~/e ~f.g f.g=1", "a.b: ~a.b; c/d: ~c/d=x"},
        {"python t.py --a $(($1 + 1)) --b $((${1}))", "a: $(($1 + 1)); b: $((${1}))"},
        {"A=1\nB=2\nAB=7\npython t.py --a $(($A$B)) --b $((A$B))", "b: $((A$B))"},
        {"A=0.5\nB=010\nC=1_0\nD=1e3\nE=()\npython t.py --a $((A)) --b $((B)) --c $((C)) --d $((D)) --e $((E))",
         "a: $((A)); b: $((B)); c: $((C)); d: $((D)); e: $((E))"},
        {"if true; then A=1; fi\npython t.py --a $((A))", "a: $((A))"},
        {"python t.py --a ${1:-x}", "a: ${1:-x}"},
        {"set -- --bf16 $X\npython t.py --a 1 --b $2 --c ${@:2}", "b: $X; c: ${@:2}"},
        {"python t.py --a ${#B} --c ${D%.txt}", "a: ${#B}; c: ${D%.txt}"},
        {"python t.py --a ${A:-x' 'y} --b \"${A:-\"x\"y}\"", "a: ${A:-x' 'y}; b: ${A:-\"x\"y}"},
        {"python t.py --a {1,2} --b {1..3}", "a: {1,2}; b: {1..3}"},
        {"python t.py --a $'1\\t2'", "a: $'1\\t2'"},
        {"read -r A <<EOF\n1\n2\nEOF\npython t.py --a $A", "a: $A"},
        {"read -rd '' A B <<EOF\n1 2\nEOF\npython t.py --a $A", "a: $A"},
    };
    for (const Case& one : cases) {
        CAPTURE(one.text);
        CHECK(unknown_of(read_command_config(one.text, "x.sh")) == one.unknown);
    }
    CHECK(command_refusal("python t.py --$(cat p) True")
              .starts_with("x.sh:1:13: the name of an option depends on `$(cat p)`"));
    CHECK(command_refusal("python -m m ~a$X").starts_with("x.sh:1:13: a word depends on `$X`"));
    CHECK(command_refusal("python t.py --fp$X=1").starts_with("x.sh:1:13: the name of an option depends on `$X`"));
    CHECK(command_refusal("python -m m a.$X=1").starts_with("x.sh:1:13: a word depends on `$X`"));
    CHECK(command_refusal("python -m m a.b$X=$Y").starts_with("x.sh:1:13: a word depends on `$Y`"));
    CHECK(command_refusal("env A$X=1 python t.py").starts_with("x.sh:1:5: a variable of the environment depends"));
    CHECK(command_refusal("accelerate launch --mixed$X=1 t.py").starts_with("x.sh:1:19: an option of the launcher"));
    CHECK(command_refusal("python t.py --a 1 $MORE").starts_with("x.sh:1:19: a word depends on `$MORE`"));
    for (const char* option : {"mixed_precision", "config_file", "zero_stage", "deepspeed_config_file", "fsdp_version",
                               "use_fsdp", "fp8_backend", "gradient_clipping"}) {
        CAPTURE(option);
        CHECK(command_refusal(fmt::format("accelerate launch --{}=$X t.py", option)).find("depends on `$X`") !=
              std::string::npos);
    }
    CHECK(command_refusal("accelerate launch --zero_stage $X t.py").find("depends on `$X`") != std::string::npos);
    CHECK(command_of("accelerate launch --num_processes=$X --main_process_port $Y t.py --a 1") == "{a=1}");
    CHECK(command_refusal("torchrun $ARGS t.py --a 1").find("`$ARGS`, which is unknown") != std::string::npos);
}

TEST_CASE("scripts that cannot be read without running them are refused with the line", "[config]") {
    struct Case {
        const char *text, *says;
    };
    const Case cases[] = {
        {"\nfor P in a b; do\n  python t.py --$P\ndone", "x.sh:2:1: a loop can change"},
        {"while true; do python t.py; done", "x.sh:1:1: a loop"},
        {"case $A in\n a) python t.py;;\nesac", "x.sh:1:1: a `case`"},
        {"f() {\n python t.py\n}\nf", "x.sh:1:2: a function"},
        {"function f {\n python t.py\n}", "x.sh:1:1: a function"},
        {"eval \"python t.py\"", "x.sh:1:1: `eval`"},
        {"source env.sh\npython t.py", "x.sh:1:1: `source`"},
        {". ./env.sh\npython t.py", "x.sh:1:1: `.`"},
        {"(cd x; python t.py)", "x.sh:1:1: a group in parentheses"},
        {"if [ -z \"$A\" ]; then\n B=1\nelse\n B=2\nfi\npython t.py --b $B", "x.sh:6:1: the `if` in line 1 decides"},
        {"[ -z \"$A\" ] && B=1\npython t.py --b $B", "x.sh:2:1: the test in line 1 decides"},
        {"B=1\n[ -n \"$X\" ] && { B=2; }\npython t.py --b $B", "x.sh:3:1: the test in line 2 decides"},
        {"B=1\n[ -n \"$X\" ] && {\n  true\n  { B=2; }\n}\npython t.py --b $B", "x.sh:6:1: the test in line 2"},
        {"B=1\n[ -n \"$X\" ] ||\n  # why\n  B=2\npython t.py --b $B", "x.sh:5:1: the test in line 4 decides"},
        {"B=1\n[ -n \"$X\" ] && ! B=2\npython t.py --b $B", "x.sh:3:1: the test in line 2 decides"},
        {"B=1\nif true; then { B=2; }; fi\npython t.py --b $B", "x.sh:3:1: the `if` in line 2 decides"},
        {"if true; then python t.py; }", "x.sh:1:28: `}` closes nothing"},
        {"{ python t.py", "x.sh:1:1: `{` without `}`"},
        {"if true; then A=1; fi\nread -d '' B <<EOF\n--b $A\nEOF\npython t.py $B", "x.sh:5:1: the `if` in line 1"},
        {"set -- --a 1\n[ -d x ] && set -- --a 2\npython t.py \"$@\"", "x.sh:3:1: the test in line 2 decides"},
        {"set -- --a 1\n[ -d x ] && shift\npython t.py \"$@\"", "x.sh:3:1: the test in line 2 decides"},
        {"set -- \"$@\" --a 1\npython t.py \"$@\"", "x.sh:2:13: a word depends on `$@`"},
        {"torchrun a.py --x 1\ntorchrun b.py --x 2", "x.sh:2:1: the file has 2 training commands, in the lines 1, 2"},
        {"echo hello", "x.sh: the file contains no command that starts a training program"},
        {"python -c 'import x'", "x.sh: the file contains no command"},
        {"torchrun --no-such-option t.py", "x.sh:1:10: '--no-such-option' is not a known option of torchrun"},
        {"python -uZ t.py", "x.sh:1:8: '-uZ' is not a known option of python"},
        {"env -i python t.py", "x.sh:1:5: '-i' is not a known option of env"},
        {"srun --export=NONE torchrun t.py", "x.sh:1:6: '--export=NONE' removes other variables"},
        {"srun --export=ALL,A=$X torchrun t.py", "x.sh:1:6: a variable of the environment depends on `$X`"},
        {"env $X python t.py", "x.sh:1:5: a variable of the environment depends on `$X`"},
        {"python t.py --a 'open", "x.sh:1:17: a quote is not closed"},
        {"python t.py --a \"open", "x.sh:1:17: a quote is not closed"},
        {"python t.py --a $(open", "x.sh:1:17: an expansion has no ')'"},
        {"python t.py --a ${open", "x.sh:1:17: an expansion has no '}'"},
        {"A=(1 2\npython t.py", "x.sh:1:3: an array is not closed"},
        {"cat > f <<EOF\nx\n", "x.sh:1:9: the here-document has no line 'EOF'"},
        {"if true; then python t.py", "x.sh:1:1: `if` without `fi`"},
    };
    for (const Case& one : cases) {
        CAPTURE(one.text);
        const std::string said = command_refusal(one.text);
        CAPTURE(said);
        CHECK(said.starts_with(one.says));
    }
}

TEST_CASE("a line number selects one of several training commands", "[config]") {
    const char* text = "python prepare.py\ntorchrun a.py --x 1\ntorchrun b.py \\\n  --x 2\n";
    CHECK(shown(read_command_config(text, "x.sh", 2).root) == "{x=1}");
    CHECK(shown(read_command_config(text, "x.sh", 4).root) == "{x=2}");
    CHECK(shown(read_command_config(text, "x.sh", 1).root) == "{}");
    CHECK_THROWS_AS(read_command_config(text, "x.sh", 9), Error);
    CHECK(command_of("python prepare.py --y 3\ntorchrun a.py --x 1") == "{x=1}");  // preparing data is not training
}

TEST_CASE("the language of a script follows from its name, and otherwise from its first word", "[config]") {
    const auto language = [](std::string_view text, const char* path) {
        return read_config_text(text, path, path).language;
    };
    CHECK(language("--bf16", "a.args") == ConfigLanguage::arguments);
    CHECK(language("# options\n--bf16", "a.sh") == ConfigLanguage::arguments);
    CHECK(language("torchrun t.py --bf16", "a.args") == ConfigLanguage::command);
    CHECK(language("#!/bin/sh\npython t.py", "a.sh") == ConfigLanguage::command);
    CHECK(language("#!/bin/sh\npython t.py", "launch") == ConfigLanguage::command);
    CHECK(language("srun python3.11 t.py", "line.txt") == ConfigLanguage::command);
    CHECK(language("{\"a\": 1}", "ds.conf") == ConfigLanguage::json);
    CHECK(language("a: 1", "x.conf") == ConfigLanguage::yaml);
    CHECK(language("a = 1", "x.py") == ConfigLanguage::python);
    CHECK(language("a = 1", "x.toml") == ConfigLanguage::toml);
}

TEST_CASE("large and malformed scripts are read or refused quickly", "[config]") {
    std::string doubled = "A0=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n";
    for (int i = 1; i < 60; ++i) doubled += fmt::format("A{}=$A{}$A{}\n", i, i - 1, i - 1);
    std::string defaults;
    for (int i = 0; i < 1000; ++i) defaults += "${A:-";
    const std::string big(1'000'000, 'x');
    const std::string texts[] = {
        "python t.py --a " + big,
        "python t.py --a '" + big,
        doubled + "python t.py --a $A59",
        "python t.py --a " + defaults + std::string(1000, '}'),
        "python t.py --a " + std::string(300'000, '$'),
        "python t.py --a " + std::string(300'000, '('),
        "python t.py --a $((" + std::string(100'000, '(') + "1" + std::string(100'000, ')') + "))",
        "A=(" + big + ")\npython t.py ${A[@]}",
        std::string("python t.py --a \0 1", 19),
        std::string(500'000, '\\'),
        std::string(300'000, '`'),
    };
    const std::clock_t start = std::clock();
    for (const std::string& text : texts) {
        CAPTURE(text.substr(0, 40));
        try {
            read_config_text(text, "x.sh", "x.sh");
        } catch (const Error& error) {
            CHECK(error.exit() == Exit::bad_input);
        }
    }
    for (const std::string& text : {"a = " + std::string(200'000, '('), "a = " + std::string(200'000, '['),
                                    "a = " + std::string(200'000, '-') + "1", "a = [" + big + "]"}) {
        CAPTURE(text.substr(0, 40));
        try {
            read_python_config(text, "x.py");
        } catch (const Error& error) {
            CHECK(error.exit() == Exit::bad_input);
        }
    }
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    CAPTURE(seconds);
    CHECK(seconds < 5);
}

}  // namespace script_reader_test
