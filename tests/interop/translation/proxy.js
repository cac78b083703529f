// A reverse proxy of Node's http2 and http: HTTP/2 in the clear to HTTP/1.1.
'use strict';
const http = require('node:http');
const http2 = require('node:http2');

const [host, port] = process.argv[2].split(':');
const server = http2.createServer();
server.on('stream', (stream, received) => {
  const fail = () => {
    if (!stream.headersSent && !stream.destroyed) stream.respond({ ':status': 502 });
    stream.end();
  };
  stream.on('error', () => {});
  const headers = { host: received[':authority'] };
  for (const name of Object.keys(received)) {
    // Node ends when a request without chunks has this one.
    if (!name.startsWith(':') && name !== 'trailer') headers[name] = received[name];
  }
  try {
    const method = received[':method'];
    const request = http.request({ host, port, method, path: received[':path'], headers });
    request.on('error', fail);
    request.on('connect', (response, socket) => { socket.destroy(); fail(); });
    request.on('response', (response) => {
      stream.respond({ ':status': response.statusCode });
      response.pipe(stream);
    });
    stream.on('aborted', () => request.destroy());
    stream.pipe(request);
  } catch {
    fail();
  }
});
server.listen(0, '127.0.0.1', () => console.error('listening', server.address().port));
