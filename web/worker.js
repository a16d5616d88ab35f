// SPDX-License-Identifier: Apache-2.0
// The worker of the page. It runs the program, so that the page never freezes. scripts/page puts emscripten's glue and
// program.js in front of this file.
'use strict';

let opened = null, compiled = null;

/// The page sends {module} once, and then {id, args, files, stdin} for every call. The worker answers {ready} and
/// {id, exit, stdout, stderr, ms}. If the program ends abnormally, the answer is {id, trap}, and the next call starts
/// another instance.
onmessage = async ({data}) => {
  if (data.module) {
    compiled = data.module;
    opened = await openProgram(macheps, compiled);
    postMessage({ready: true});
    return;
  }
  const began = performance.now();
  try {
    if (!opened) opened = await openProgram(macheps, compiled);
    const result = opened.run(data.args, data.files, data.stdin);
    postMessage({id: data.id, ...result, ms: performance.now() - began});
  } catch (error) {
    opened = null;
    postMessage({id: data.id, trap: String(error), ms: performance.now() - began});
  }
};
