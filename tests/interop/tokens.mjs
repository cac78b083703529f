// Prints a token of every algorithm, by jose, and writes the keys to the file that is named.

import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(process.argv[2] + "/");
const { SignJWT, exportJWK, generateKeyPair, generateSecret } = require("jose");

const keys = [];
const secrets = ["HS256", "HS384", "HS512"];
const pairs = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"];
for (const alg of [...secrets, ...pairs, "EdDSA"]) {
  const options = { extractable: true };
  const made = secrets.includes(alg)
    ? await generateSecret(alg, options)
    : await generateKeyPair(alg, options);
  const [signing, published] = made.privateKey ? [made.privateKey, made.publicKey] : [made, made];
  const { key_ops, ...jwk } = await exportJWK(published);
  keys.push({ ...jwk, kid: alg, alg });
  const token = await new SignJWT({})
    .setProtectedHeader({ alg, kid: alg })
    .setSubject("ann")
    .setAudience(["shop"])
    .setExpirationTime("10m")
    .sign(signing);
  console.log(alg, token);
}
writeFileSync(process.argv[3], JSON.stringify({ keys }));
