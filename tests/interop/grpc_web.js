// Calls shop.v1.Orders of grpc_calls.py through a gateway, with the client that browsers use.
//
//   node grpc_web.js PORT text|binary   prints "done"
"use strict";

global.XMLHttpRequest = require("xhr2");
const assert = require("node:assert");
const { GrpcWebClientBase, MethodDescriptor, MethodType, StatusCode } = require("grpc-web");

const [port, format] = process.argv.slice(2);
const client = new GrpcWebClientBase({ format });
const bytes = (text) => new TextEncoder().encode(text);
const text = (data) => new TextDecoder().decode(data);

// Messages are texts, which both sides take as bytes.
function method(name, kind) {
  const path = `/shop.v1.Orders/${name}`;
  return [`http://127.0.0.1:${port}${path}`,
    new MethodDescriptor(path, kind, Object, Object, bytes, text)];
}

function unary(name, request) {
  const [url, descriptor] = method(name, MethodType.UNARY);
  return client.unaryCall(url, request, { "x-page": "1" }, descriptor);
}

function stream(name, request) {
  const [url, descriptor] = method(name, MethodType.SERVER_STREAMING);
  return new Promise((resolve) => {
    const found = { messages: [] };
    const call = client.serverStreaming(url, request, {}, descriptor);
    call.on("data", (message) => found.messages.push(message));
    call.on("error", (error) => resolve({ ...found, code: error.code }));
    call.on("status", (status) => { found.status = status.code; });
    call.on("end", () => resolve(found));
  });
}

async function main() {
  assert.strictEqual(await unary("Get", "one"), "one");
  const failed = await unary("Get", "fail").then(() => null, (error) => error);
  assert.strictEqual(failed.code, StatusCode.FAILED_PRECONDITION);
  assert.strictEqual(failed.message, "zwölf % nicht");
  const unknown = await unary("None", "").then(() => null, (error) => error);
  assert.strictEqual(unknown.code, StatusCode.UNIMPLEMENTED);
  // The client reads streams as text only.
  if (format === "text") {
    const watched = await stream("Watch", "w");
    assert.deepStrictEqual(watched.messages, Array.from({ length: 10 }, (_, n) => `w ${n}`));
    const broken = await stream("Watch", "fail");
    assert.strictEqual(broken.messages.length, 10);
    assert.strictEqual(broken.code, StatusCode.DATA_LOSS);
  }
  console.log("done");
}

main().catch((error) => { console.error(error); process.exit(1); });
