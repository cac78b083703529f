// A server of HTTP/2 in the clear that responds with what it has read, in parts that control
// characters separate.
'use strict';
const http2 = require('node:http2');

const lines = (raw, end) => {
  let text = '';
  for (let at = 0; at < raw.length; at += 2) {
    if (!raw[at].startsWith(':')) text += `${raw[at]}: ${raw[at + 1]}${end}`;
  }
  return text;
};
const server = http2.createServer();
server.on('stream', (stream, headers, flags, raw) => {
  let content = '';
  let trailers = '';
  stream.setEncoding('utf8');
  stream.on('data', (data) => { content += data; });
  stream.on('trailers', (received, flags, raw) => { trailers = lines(raw, '\x1d'); });
  stream.on('error', () => {});
  stream.on('end', () => {
    if (stream.destroyed) return;
    const line = `${headers[':method']} ${headers[':path']} ${headers[':authority']}\x1e`;
    stream.respond({ ':status': 200 });
    stream.end(`${line}${lines(raw, '\x1e')}\x1d${content}\x1d${trailers}`);
  });
});
server.listen(0, '127.0.0.1', () => console.error('listening', server.address().port));
