//! Tokens of the RFCs' examples, our own, and forged ones.

use crate::{crypto, json};
use mlua::Lua;

fn lua() -> Lua {
    let lua = Lua::new();
    let preload: mlua::Table = lua.load("return package.preload").eval().unwrap();
    let open = lua.create_function(|lua, _: mlua::MultiValue| json::open(lua)).unwrap();
    preload.set("tide.encoding.json", open).unwrap();
    let globals = lua.globals();
    globals.set("jwt", super::open(&lua).unwrap()).unwrap();
    let json: mlua::Table = lua.load("return require 'tide.encoding.json'").eval().unwrap();
    globals.set("json", json).unwrap();
    globals.set("pkey", crypto::pkey::open(&lua).unwrap()).unwrap();
    globals.set("hmac", crypto::hmac::open(&lua).unwrap()).unwrap();
    globals.set("base64", crate::base64::open(&lua).unwrap()).unwrap();
    for (name, text) in [
        ("rsa", include_str!("../crypto/fixtures/rsa.pem")),
        ("rsa_public", include_str!("../crypto/fixtures/rsa.public.pem")),
        ("k256", include_str!("../crypto/fixtures/k256.pem")),
        ("p256", include_str!("../crypto/fixtures/p256.pem")),
        ("p384", include_str!("../crypto/fixtures/p384.pem")),
        ("p521", include_str!("../crypto/fixtures/p521.pem")),
    ] {
        globals.set(name, text).unwrap();
    }
    lua
}

#[track_caller]
fn holds(code: &str) {
    lua().load(code).exec().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn every_algorithm_there_and_back() {
    holds(
        r#"
        local keys = {HS = {"secret", "secret", "secret"},
            RS = {pkey.new(rsa), pkey.new(rsa), pkey.new(rsa)},
            ES = {pkey.new(p256), pkey.new(p384), pkey.new(p521)}}
        for family, list in pairs(keys) do
            for i, bits in ipairs {"256", "384", "512"} do
                local name, key = family .. bits, list[i]
                local token = assert(jwt.encode({sub = "me", list = {1, 2.5}}, key, name))
                local payload = assert(jwt.decode(token, key))
                assert(payload.sub == "me" and payload.list[2] == 2.5)
                assert(jwt.decode(token, key, {algorithms = {name}}))
                local value, reason = jwt.decode(token, key, {algorithms = {"none"}})
                assert(value == nil and reason == "Unsupported algorithm: " .. name, reason)
                value, reason = jwt.decode(token:sub(1, -5) .. "AAAA", key)
                assert(value == nil and reason == "Signature verification failed", reason)
                value, reason = jwt.decode(token:gsub("%.", ".e", 1), key)
                assert(value == nil and reason == "Signature verification failed", reason)
            end
        end
        local token = jwt.encode({a = 1}, pkey.new(rsa), "RS256")
        assert(jwt.decode(token, pkey.new(rsa_public)).a == 1)"#,
    );
}

/// RFC 7515 appendix A.1, whose time has passed.
#[test]
fn the_token_of_rfc_7515() {
    holds(
        r#"
        local token = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9." ..
            "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQog" ..
            "Imh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ" ..
            ".dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
        local key = base64.urlsafe_decode(
            "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75" ..
            "aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow")
        local payload = assert(jwt.decode(token, key, {now = 1300819379}))
        assert(payload.iss == "joe" and payload["http://example.com/is_root"] == true)
        local value, reason = jwt.decode(token, key)
        assert(value == nil and reason == "Token expired", reason)
        assert(jwt.decode(token, key, {now = 1300819385, leeway = 10}))"#,
    );
}

#[test]
fn time_is_checked() {
    holds(
        r#"
        local function at(claims, now, leeway)
            return jwt.decode(jwt.encode(claims, "k"), "k", {now = now, leeway = leeway})
        end
        assert(at({exp = 100}, 99) and at({nbf = 100}, 100) and at({exp = 100.5}, 100.25))
        assert(select(2, at({exp = 100}, 100)) == "Token expired")
        assert(select(2, at({nbf = 100}, 99)) == "Token not valid yet")
        assert(at({nbf = 100}, 99, 1) and at({exp = 100}, 100, 1))
        assert(select(2, at({exp = "soon"}, 1)) == "Invalid payload")
        assert(select(2, at({exp = json.null}, 1)) == "Invalid payload")
        assert(jwt.decode(jwt.encode({exp = os.time() + 60}, "k"), "k"))
        assert(next(assert(jwt.decode(jwt.encode({}, "k"), "k"))) == nil)
        assert(jwt.decode(jwt.encode({exp = os.time() - 60}, "k"), "k") == nil)"#,
    );
}

/// The key decides: not the token.
#[test]
fn a_token_cannot_choose_its_algorithm() {
    holds(
        r#"
        local function token(header, signature)
            return base64.urlsafe_encode(header) .. "." .. base64.urlsafe_encode('{"a":1}') .. "."
                .. (signature or "")
        end
        local function refuses(token, key, reason)
            local value, found = jwt.decode(token, key)
            assert(value == nil and found == reason, found)
        end
        refuses(token '{"alg":"none"}', "k", "Unsupported algorithm: none")
        refuses(token '{"alg":"None"}', pkey.new(rsa_public), "Unsupported algorithm: None")
        -- the public key's text as a secret
        local forged = jwt.encode({admin = true}, rsa_public, "HS256")
        refuses(forged, pkey.new(rsa_public), "Unsupported algorithm: HS256")
        refuses(jwt.encode({}, pkey.new(p256), "ES256"), pkey.new(p384),
            "Unsupported algorithm: ES256")
        refuses(jwt.encode({}, pkey.new(k256), "ES256K"), pkey.new(p256),
            "Unsupported algorithm: ES256K")
        assert(jwt.decode(jwt.encode({ n = 1 }, pkey.new(k256), "ES256K"), pkey.new(k256)).n == 1)
        refuses(token '{"alg":"HS256","crit":["exp"]}', "k", "Invalid header")
        refuses(token '{"typ":"JWT"}', "k", "Invalid header")
        refuses(token '["HS256"]', "k", "Invalid header")
        refuses(token '{"alg":["HS256"]}', "k", "Invalid header")
        refuses(token '{"alg":"HS256"', "k", "Invalid header")
        refuses(token '{"alg":"HS256"}', "k", "Signature verification failed")
        refuses(token('{"alg":"HS256"}', "!!"), "k", "Invalid signature")
        for _, bad in ipairs {"", ".", "a.b", "a.b.c.d", ("x"):rep(100000) .. ".."} do
            refuses(bad, "k", "Invalid token format")
        end
        refuses("..", "k", "Invalid header")
        refuses("\xff.\0.\1", "k", "Invalid header")
        local parts = token '{"alg":"HS256"}'
        parts = parts:match("^[^.]*%.") .. base64.urlsafe_encode("null")
        refuses(parts .. "." .. base64.urlsafe_encode(hmac.digest("k", parts, "sha256")), "k",
            "Invalid payload")"#,
    );
}

#[test]
fn keys_of_other_algorithms_are_rejected() {
    holds(
        r#"
        local function refuses(key, name, reason)
            local value, found = jwt.encode({}, key, name)
            assert(value == nil and found == reason, found)
        end
        refuses("k", "RS256", "the key is not for RS256")
        refuses(pkey.new(rsa), "ES256", "the key is not for ES256")
        refuses(pkey.new(p256), "ES384", "the key is not for ES384")
        refuses("k", "none", "Unsupported algorithm: none")
        refuses(pkey.new(rsa_public), "RS256", "the key is public")
        local value, reason = jwt.encode({f = print}, "k")
        assert(value == nil and reason == "a function cannot be encoded as JSON", reason)"#,
    );
    let lua = lua();
    let error = |code: &str| lua_vm::errors::text(&lua.load(code).exec().unwrap_err());
    assert_eq!(
        error("jwt.decode('x', {})"),
        "bad argument #2 to 'decode' (a string or a crypto.pkey expected, got table)"
    );
    assert!(error("jwt.encode(1, 'k')").starts_with("bad argument #1 to 'encode' (table expected"));
}
