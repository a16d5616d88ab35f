// SPDX-License-Identifier: Apache-2.0
// Runs command lines with the native program and with the WebAssembly program, and compares stdout, stderr and the exit
// code. All command lines run in one instance of the WebAssembly program.
// usage: node parity.mjs PROGRAM FOLDER [CONFIGS...]
//   PROGRAM  the native program
//   FOLDER   the folder with macheps_web.js and macheps_web.wasm
//   CONFIGS  folders whose files are imported with `policy import --json`
import {spawnSync} from 'node:child_process';
import {mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {basename, join} from 'node:path';
import {fileURLToPath} from 'node:url';

const require = createRequire(import.meta.url);
const source = join(fileURLToPath(import.meta.url), '../../..');
const {openProgram} = require(join(source, 'web/program.js'));
const [, , native, folder, ...configs] = process.argv;
if (!folder) {
  console.error('usage: node parity.mjs PROGRAM FOLDER [CONFIGS...]');
  process.exit(2);
}

const runNative = (args, cwd) => {
  const result = spawnSync(native, args, {cwd, encoding: 'utf8', maxBuffer: 1 << 28});
  return {exit: result.status, stdout: result.stdout, stderr: result.stderr};
};
const json = args => JSON.parse(runNative(args, source).stdout);

const numbers = ['0.1', '1/3', '-0', 'inf', 'nan', '65504', '65520', '1e-8', '0x1.8p-149', '464', '3.4028236e38', '5e-324'];
const optionSets = [
  [], ['--json'], ['--format', 'fp16,bf16,e5m6,fp64'], ['--round', 'toward_zero'], ['--format', 'e4m3fn', '--round', 'nearest_away'],
  ['--format', 'bf16', '--round', 'stochastic'],
];
const commands = [];
for (const number of numbers) {
  for (const options of optionSets) commands.push(['show', number, ...options]);
}
const formats = json(['formats', '--json']);
commands.push(['formats'], ['formats', '--csv'], ['formats', '--json'], ['formats', '--profiles'], ['help', 'show'], ['show', '--help']);
for (const machine of json(['machine', 'list', '--json'])) {
  const name = machine.machine;
  // On a CPU that has the unit, the native program tests it, and prints the result of this test.
  if (!['x86', 'arm'].includes(machine.arch)) commands.push(['machine', 'show', name], ['machine', 'show', name, '--json']);
  commands.push(['gemm', '-M', name, '-m', '4', '-n', '4', '-k', '256', '-q']);
}
commands.push(
    ['machine', 'list'], ['machine', 'list', '--json'], ['machine', 'show', 'h100'],
    ['gemm', '-d', 'equal', '--scale', '0.0625', '-m', '1', '-n', '1', '--sweep', 'k=16384..65536', '-M', 'sm90.wgmma.fp8,sm90.wgmma.fp8+promote128', '-q'],
    ['gemm', '--sweep', 'k=16..4096', '-M', 'chain:bf16,chain:bf16:stochastic,kahan:bf16,pairwise:fp16', '-q'],
    ['gemm', '-M', 'sm90.wgmma.fp8', '-d', 'uniform,lognormal,outliers', '--json', '-q'],
    ['gemm', '--via', 'ozaki1:6', '-M', 'sm90.wgmma.fp16', '-k', '256', '--combine', 'exact', '-q'],
    ['compute', '0.1 + 0.2'], ['compute', 'fma(0.1, 10, -1)', '--json'], ['compute', 'sqrt(2)', '--round', 'up'], ['compute', '1 +'],
    ['machine', 'trace', 'sm90.wgmma.fp8', '-a', '1,0.25', '-b', '1,0.25', '-c', '1024'], ['machine', 'trace', 'fp32.chain', '--json'],
    ['gemm', '-M', 'no-such-machine'], ['gemm', '-k', '0'],
    ['sum', '-d', 'positive', '--sweep', 'n=2^4..2^12', '-f', 'bf16', '--method', 'recursive', '--round', 'nearest_even,stochastic', '--trials', '20', '-q'],
    ['sum', '-d', 'harmonic', '-n', '1000', '-f', 'fp16,fp32', '-q'], ['sum', '-d', 'cancel', '-n', '100', '-q'],
    ['reveal', '--machine', 'sm90.wgmma.fp8+promote128', '-k', '512'], ['reveal', '--machine', 'fp32.chain', '-k', '32', '--json'],
    ['scaler', 'ds-zero', '--window', '3', '--overflow-at', '3,4,9'], ['scaler', 'torch', '--steps', '50', '--json'], ['scaler', 'nothing'],
    ['policy', 'list'], ['policy', 'list', '--json'], ['policy', 'words', '--json'], ['policy', 'diff', 'tf32', 'amp-bf16'],
    ['policy', 'advise', '--gpu', 't4', '--goal', 'finetune'], ['policy', 'advise', '--gpu', 'h100', '--json'], ['policy', 'history'],
    ['policy', 'history', 'deepspeed', '--json'], ['why', 'Attempting to unscale FP16 gradients'], ['why', 'loss is nan', '--json']);
for (const preset of json(['policy', 'list', '--json'])) {
  const name = preset.name ?? preset.policy ?? preset;
  for (const verb of ['show', 'explain']) commands.push(['policy', verb, name]);
}
const files = folder => readdirSync(folder).sort().flatMap(name => {
  const path = join(folder, name);
  return statSync(path).isDirectory() ? files(path) : [path];
});
for (const path of [...configs.flatMap(files), ...files(join(source, 'examples/configs'))]) commands.push({path});

const factory = require(join(folder, 'macheps_web.js'));
process.removeAllListeners('uncaughtException');  // emscripten's glue would print itself
const wasm = readFileSync(join(folder, 'macheps_web.wasm'));
let program = await openProgram(factory, wasm);
const scratch = mkdtempSync(join(tmpdir(), 'macheps-parity-'));
let equal = 0, differ = 0, nativeMs = 0, webMs = 0, slowest = {ms: 0};
const show = text => JSON.stringify(text.length > 400 ? text.slice(0, 400) + '...' : text);
for (const command of commands) {
  let args = command, given = {};
  if (command.path) {
    const name = basename(command.path), contents = readFileSync(command.path);
    args = ['policy', 'import', '--json', name];
    given = {[name]: contents};
    writeFileSync(join(scratch, name), contents);
  }
  const began = performance.now();
  const wanted = runNative(args, scratch);
  const between = performance.now();
  let got;
  try {
    got = program.run(args, given);
  } catch (error) {
    got = {exit: 'trap', stdout: '', stderr: String(error)};
    program = await openProgram(factory, wasm);
  }
  const ms = performance.now() - between;
  nativeMs += between - began;
  webMs += ms;
  if (ms > slowest.ms) slowest = {ms, args};
  if (command.path) rmSync(join(scratch, basename(command.path)));
  const difference = ['exit', 'stdout', 'stderr'].find(part => got[part] !== wanted[part]);
  if (!difference) {
    ++equal;
    continue;
  }
  ++differ;
  if (differ > 20) continue;
  console.log(`differs: macheps ${args.join(' ')}`);
  if (difference === 'exit') {
    console.log(`  exit code: native ${wanted.exit}, WebAssembly ${got.exit} ${show(got.stderr)}`);
    continue;
  }
  const nativeLines = wanted[difference].split('\n'), webLines = got[difference].split('\n');
  const line = nativeLines.findIndex((text, i) => text !== webLines[i]);
  const at = line < 0 ? nativeLines.length : line;
  console.log(`  ${difference}, line ${at + 1}: native ${show(nativeLines[at] ?? '(end)')}`);
  console.log(`  ${' '.repeat(difference.length)}         WebAssembly ${show(webLines[at] ?? '(end)')}`);
}
rmSync(scratch, {recursive: true});
console.log(`${equal} of ${commands.length} command lines have the same output and exit code ` +
            `(native ${Math.round(nativeMs)} ms, WebAssembly ${Math.round(webMs)} ms; slowest ${Math.round(slowest.ms)} ms: ` +
            `${slowest.args?.join(' ')})`);
process.exit(differ > 0 ? 1 : 0);
