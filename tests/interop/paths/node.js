// Targets on stdin, one a line; for each the paths that Node's readers see, as a line of JSON.
'use strict';
const url = require('node:url');
const path = require('node:path');

const lines = require('node:fs').readFileSync(0, 'latin1').split('\n').filter(Boolean);
const decoded = (text) => { try { return decodeURIComponent(text); } catch { return text; } };
for (const target of lines) {
  const seen = {};
  const read = (name, reader) => {
    try { seen[name] = reader(); } catch { /* rejected by this reader */ }
  };
  read('new URL', () => new URL(target, 'http://h').pathname);
  read('new URL, absolute', () => new URL('http://h' + target).pathname);
  read('url.parse', () => url.parse(target).pathname);
  read('path.normalize', () => path.posix.normalize(target.split('?')[0]));
  for (const name of Object.keys(seen)) seen[name + ', decoded'] = decoded(seen[name]);
  console.log(JSON.stringify(seen));
}
