// An HTTP/2 server of Node's http2, in the clear; it resets and ends connections as it is told.
const http2 = require('node:http2');

const server = http2.createServer({ settings: { maxConcurrentStreams: 10 } });
let requests = 0;
server.on('stream', (stream, headers) => {
  requests += 1;
  stream.on('error', () => {});
  const path = headers[':path'];
  if (path === '/refuse-once' && !server.refused) {
    server.refused = true;
    stream.close(http2.constants.NGHTTP2_REFUSED_STREAM);
  } else if (path === '/goaway') {
    stream.session.goaway(http2.constants.NGHTTP2_NO_ERROR, stream.id);
    stream.respond({ ':status': 200 });
    stream.end('last');
  } else if (path === '/echo') {
    stream.respond({ ':status': 200 }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'x-end': 'yes' }));
    stream.pipe(stream);
  } else {
    stream.additionalHeaders({ ':status': 103, link: '</a.css>' });
    stream.respond({ ':status': 200 });
    stream.end(`${headers[':method']} ${path} ${requests}`);
  }
});
server.listen(0, '127.0.0.1', () => console.error('listening', server.address().port));
