// A server of Node with TLS that demands HTTP/1.1 of every request of HTTP/2.
const fs = require('node:fs');
const http2 = require('node:http2');

const [cert, key] = ['server.pem', 'server.key'].map((name) => fs.readFileSync(name));
const server = http2.createSecureServer({ cert, key, allowHTTP1: true });
server.on('request', (request, response) => {
  if (request.httpVersion === '2.0') {
    request.stream.on('error', () => {});
    request.stream.close(http2.constants.NGHTTP2_HTTP_1_1_REQUIRED);
  } else {
    response.end(`HTTP/${request.httpVersion} ${request.method}`);
  }
});
server.listen(0, '127.0.0.1', () => console.error('listening', server.address().port));
