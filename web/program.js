// SPDX-License-Identifier: Apache-2.0
// Runs the program in WebAssembly as a command line. The worker of the page and the tests in Node use this file.
'use strict';

/// Collects bytes, and returns them as text.
class ByteText {
  constructor() { this.clear(); }
  clear() {
    this.bytes = new Uint8Array(1 << 12);
    this.size = 0;
  }
  add(byte) {
    if (byte === null) return;  // a flush
    if (this.size === this.bytes.length) {
      const larger = new Uint8Array(2 * this.size);
      larger.set(this.bytes);
      this.bytes = larger;
    }
    this.bytes[this.size++] = byte;
  }
  take() {
    const text = new TextDecoder().decode(this.bytes.subarray(0, this.size));
    this.clear();
    return text;
  }
}

/// Returns a path inside the working directory, without `..`, for the name of a file that a user dropped.
function innerPath(name) {
  return name.split(/[\\/]+/).filter(part => part !== '' && part !== '.' && part !== '..').join('/') || 'file';
}

/// Starts the program. `factory` is the function that emscripten's glue defines. `wasm` is the compiled module, or its
/// bytes. Resolves to an object with the method run(). `progress`, if given, is called with every byte of stderr.
async function openProgram(factory, wasm, progress) {
  const out = new ByteText(), err = new ByteText();
  let input = new Uint8Array(0), place = 0;
  const streams = module => module.FS.init(
      () => place < input.length ? input[place++] : null, byte => out.add(byte), byte => {
        err.add(byte);
        if (progress && byte !== null) progress(byte);
      });
  const source = wasm instanceof WebAssembly.Module ? {
    instantiateWasm: (imports, done) => {
      WebAssembly.instantiate(wasm, imports).then(instance => done(instance, wasm));
      return {};
    },
  } : {wasmBinary: wasm};
  const module = await factory({...source, noInitialRun: true, preRun: [streams]});
  const {FS} = module;
  FS.mkdir('/files');
  FS.chdir('/files');
  const remove = folder => {
    for (const name of FS.readdir(folder)) {
      if (name === '.' || name === '..') continue;
      const path = `${folder}/${name}`;
      if (FS.isDir(FS.lstat(path).mode)) {
        remove(path);
        FS.rmdir(path);
      } else {
        FS.unlink(path);
      }
    }
  };
  return {
    /// Runs `macheps ARGUMENTS...` in a folder that contains `files` ({name: text or bytes}), and deletes the folder's
    /// contents. Returns {exit, stdout, stderr}. Throws if the program ends abnormally; it must then be opened again.
    run(args, files = {}, stdin = '') {
      for (const [name, contents] of Object.entries(files)) {
        const path = innerPath(name), slash = path.lastIndexOf('/');
        if (slash > 0) FS.mkdirTree(`/files/${path.slice(0, slash)}`);
        FS.writeFile(`/files/${path}`, contents);
      }
      input = new TextEncoder().encode(stdin);
      place = 0;
      try {
        const exit = module.callMain([...args]);
        return {exit, stdout: out.take(), stderr: err.take()};
      } finally {
        out.clear();
        err.clear();
        FS.chdir('/files');
        remove('/files');
      }
    },
  };
}

if (typeof module !== 'undefined') module.exports = {innerPath, openProgram};
