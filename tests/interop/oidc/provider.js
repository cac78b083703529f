// The certified provider oidc-provider, for one client. The redirect URI is known later: the first
// request, /setup?redirect_uri=…, makes the provider. Pages get a script that submits their form, if
// the browser runs scripts.
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import Provider from "oidc-provider";

let callback;

function setUp(issuer, parameters) {
  const redirect = parameters.get("redirect_uri");
  const provider = new Provider(issuer, {
    clients: [{
      client_id: "shop",
      client_secret: "sesame open: +/",
      redirect_uris: [redirect],
      post_logout_redirect_uris: [new URL("/goodbye", redirect).href],
      grant_types: ["authorization_code", "refresh_token"],
      token_endpoint_auth_method: parameters.get("auth"),
      id_token_signed_response_alg: parameters.get("algorithm"),
    }],
    clientBasedCORS: () => false,
    pkce: { required: () => true },
    claims: { openid: ["sub"], email: ["email"] },
    conformIdTokenClaims: false,
    ttl: { AccessToken: Number(parameters.get("ttl")) },
    rotateRefreshToken: true,
    issueRefreshToken: async () => true,
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, email: `${id}@example.com` }),
    }),
    cookies: { keys: [randomUUID()] },
  });
  provider.on("server_error", (_, error) => console.error(error));
  provider.use(async (context, next) => {
    await next();
    if (typeof context.body === "string" && context.body.includes("<form")) {
      const fill = "for (const i of document.querySelectorAll('input[required]')) i.value = 'ann';";
      const submit = `<script>${fill} document.forms[0].submit();</script>`;
      context.remove("content-security-policy");
      context.body = context.body.replace("</body>", `${submit}</body>`);
    }
  });
  callback = provider.callback();
}

const server = createServer((request, response) => {
  const url = new URL(request.url, `http://${request.headers.host}`);
  if (url.pathname === "/setup") {
    setUp(`http://127.0.0.1:${server.address().port}`, url.searchParams);
    response.end("ready");
    return;
  }
  callback(request, response);
});
server.listen(0, "127.0.0.1", () => console.error(`listening on ${server.address().port}`));
