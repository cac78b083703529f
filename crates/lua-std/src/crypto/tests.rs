//! Against the vectors of the standards, and against what OpenSSL made.

use crate::crypto::{cipher, hash, hmac, pkey, random};
use mlua::Lua;

fn lua() -> Lua {
    let lua = Lua::new();
    let globals = lua.globals();
    globals.set("hash", hash::open(&lua).unwrap()).unwrap();
    globals.set("hmac", hmac::open(&lua).unwrap()).unwrap();
    globals.set("cipher", cipher::open(&lua).unwrap()).unwrap();
    globals.set("pkey", pkey::open(&lua).unwrap()).unwrap();
    globals.set("utils", random::open(&lua).unwrap()).unwrap();
    let pems = lua.create_table().unwrap();
    for (name, text) in PEMS {
        pems.set(name, text).unwrap();
    }
    globals.set("pems", pems).unwrap();
    globals.set("vectors", include_str!("fixtures/ciphers.txt")).unwrap();
    lua.load(
        r#"
        function hex(s) return (s:gsub(".", function(c) return ("%02x"):format(c:byte()) end)) end
        function raw(s) return (s:gsub("%s", ""):gsub("%x%x", function(b)
            return string.char(tonumber(b, 16)) end)) end"#,
    )
    .exec()
    .unwrap();
    lua
}

const PEMS: [(&str, &str); 16] = [
    ("k256", include_str!("fixtures/k256.pem")),
    ("k256 public", include_str!("fixtures/k256.public.pem")),
    ("k256 traditional", include_str!("fixtures/k256.traditional.pem")),
    ("rsa", include_str!("fixtures/rsa.pem")),
    ("rsa public", include_str!("fixtures/rsa.public.pem")),
    ("rsa traditional", include_str!("fixtures/rsa.traditional.pem")),
    ("rsa encrypted", include_str!("fixtures/rsa.encrypted.pem")),
    ("p256", include_str!("fixtures/p256.pem")),
    ("p256 public", include_str!("fixtures/p256.public.pem")),
    ("p256 traditional", include_str!("fixtures/p256.traditional.pem")),
    ("p384", include_str!("fixtures/p384.pem")),
    ("p384 public", include_str!("fixtures/p384.public.pem")),
    ("p384 traditional", include_str!("fixtures/p384.traditional.pem")),
    ("p521", include_str!("fixtures/p521.pem")),
    ("p521 public", include_str!("fixtures/p521.public.pem")),
    ("p521 traditional", include_str!("fixtures/p521.traditional.pem")),
];

#[track_caller]
fn holds(code: &str) {
    lua().load(code).exec().unwrap_or_else(|error| panic!("{error}"));
}

#[track_caller]
fn raises(code: &str, message: &str) {
    let error = lua().load(code).exec().unwrap_err();
    assert_eq!(lua_vm::errors::text(&error), message, "{code}");
}

#[test]
fn every_hash_of_abc() {
    holds(
        r#"
        local known = {
            ["md5"] = "900150983cd24fb0d6963f7d28e17f72",
            ["sha1"] = "a9993e364706816aba3e25717850c26c9cd0d89d",
            ["sha224"] = "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7",
            ["sha256"] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ["sha384"] = "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed" ..
                "8086072ba1e7cc2358baeca134c825a7",
            ["sha512"] = "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a" ..
                "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
            ["sha3-224"] = "e642824c3f8cf24ad09234ee7d3c766fc9a3a5168d0c94ad73b46fdf",
            ["sha3-256"] = "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532",
            ["sha3-384"] = "ec01498288516fc926459f58e2c6ad8df9b473cb0fc08c2596da7cf0e49be4b2" ..
                "98d88cea927ac7f539f1edf228376d25",
            ["sha3-512"] = "b751850b1a57168a5693cd924b6b096e08f621827444f70d884f5d0240d2712e" ..
                "10e116e9192af3c91a7ec57647e3934057340b4cf408d5a56592f8274eec53f0",
            ["blake2b512"] = "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d1" ..
                "7d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923",
            ["blake2s256"] = "508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982",
            ["sha512-224"] = "4634270f707b6a54daae7530460842e20e37ed265ceee9a43e8924aa",
            ["sha512-256"] = "53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23",
            ["sm3"] = "66c7f0f462eeedd9d1f2d46bdc10e4e24167c4875cf2f7a2297da02b8f4ba8e0",
            ["ripemd160"] = "8eb208f7e05d987a9b044a8e98c6b087f15a0bfc",
        }
        for name, digest in pairs(known) do
            assert(hex(hash.hash(name, "abc")) == digest, name)
            local state = hash.new(name:upper())
            state:update("a")
            state:update("")
            state:update("bc")
            assert(hex(state:final()) == digest, name)
            state:update("the rest of it")
            assert(hex(state:digest("abc")) == digest, name)
            state:update("the rest of it")
            state:reset()
            state:update("abc")
            assert(hex(state:final()) == digest and hex(state:digest("abc")) == digest, name)
        end"#,
    );
    raises("hash.new('md17')", "bad argument #1 to 'new' (unknown hash algorithm 'md17')");
    raises("hash.hash('crc', '')", "bad argument #1 to 'hash' (unknown hash algorithm 'crc')");
}

/// RFC 4231 sections 4.2, 4.3, 4.7.
#[test]
fn hmac_of_rfc_4231() {
    holds(
        r#"
        local function mac(key, data, name) return hex(hmac.digest(key, data, name)) end
        assert(mac(("\x0b"):rep(20), "Hi There", "sha256")
            == "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7")
        assert(mac("Jefe", "what do ya want for nothing?", "sha256")
            == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
        assert(mac(("\xaa"):rep(131), "Test Using Larger Than Block-Size Key - Hash Key First",
            "sha256") == "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54")
        assert(mac("Jefe", "what do ya want for nothing?", "md5")
            == "750c783e6ab0b503eaa86e310a5db738")
        local tag = hmac.digest("k", "d", "sha512")
        assert(hmac.verify("k", "d", tag, "sha512"))
        assert(not hmac.verify("k", "e", tag, "sha512"))
        assert(not hmac.verify("k", "d", tag:sub(1, 63), "sha512"))"#,
    );
    raises("hmac.digest('', '', 'x')", "bad argument #3 to 'digest' (unknown hash algorithm 'x')");
}

/// NIST SP 800-38A sections F.1.1, F.2.1, F.5.1.
#[test]
fn aes_of_sp_800_38a() {
    holds(
        r#"
        local key = raw "2b7e151628aed2a6abf7158809cf4f3c"
        local text = raw [[6bc1bee22e409f96e93d7e117393172a ae2d8a571e03ac9c9eb76fac45af8e51
            30c81c46a35ce411e5fbc1191a0a52ef f69f2445df4f9b17ad2b417be66c3710]]
        local modes = {
            {"aes-128-ecb", nil, [[3ad77bb40d7a3660a89ecaf32466ef97 f5d3d58503b9699de785895a96fdbaaf
                43b1cd7f598ece23881b00e3ed030688 7b0c785e27e8ad3f8223207104725dd4]]},
            {"aes-128-cbc", raw "000102030405060708090a0b0c0d0e0f",
                [[7649abac8119b246cee98e9b12e9197d 5086cb9b507219ee95db113a917678b2
                73bed6b8e3c1743b7116e69e22229516 3ff1caa1681fac09120eca307586e1a7]]},
            {"AES-128-CTR", raw "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
                [[874d6191b620e3261bef6864990db6ce 9806f66b7970fdff8617187bb9fffdff
                5ae4df3edbd5d35e5b4f09020db03eab 1e031dda2fbe03d1792170a0f3009cee]]},
        }
        for _, mode in ipairs(modes) do
            local name, iv, coded = mode[1], mode[2], raw(mode[3])
            local enc, dec = cipher.encryptor(name, key, iv), cipher.decryptor(name, key, iv)
            enc:setpadding(0)
            dec:setpadding(false)
            assert(enc:final(text) == coded, name)
            assert(dec:final(coded) == text, name)
            -- in pieces, with padding, reset in between
            for size = 1, 40, 13 do
                enc:reset(key, iv)
                enc:setpadding(1)
                dec:reset(key, iv)
                dec:setpadding(true)
                local out, back = {}, {}
                for at = 1, #text - 1, size do
                    out[#out + 1] = enc:update(text:sub(at, math.min(at + size - 1, #text - 1)))
                end
                local all = table.concat(out) .. enc:final()
                assert(name == "AES-128-CTR" or #all == 64, name)
                for at = 1, #all, size do
                    back[#back + 1] = dec:update(all:sub(at, at + size - 1))
                end
                assert(table.concat(back) .. dec:final() == text:sub(1, -2), name .. size)
            end
        end"#,
    );
}

/// Names, bytes of key and iv, and what OpenSSL 3.0 made of the text.
#[test]
fn other_modes_and_ciphers_of_openssl() {
    holds(
        r#"
        local key = raw "2b7e151628aed2a6abf7158809cf4f3c762e7160f38b4da56a784d9045190cfe"
        local iv = raw "000102030405060708090a0b0c0d0e0f"
        local text = raw [[6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c
            9eb76fac45af8e5130c81c46a35ce4]]
        local count = 0
        for name, key_bytes, iv_bytes, coded in vectors:gmatch("(%S+) (%d+) (%d+) (%x+)") do
            coded, count = raw(coded), count + 1
            local key, iv = key:sub(1, key_bytes), iv:sub(1, iv_bytes)
            for size = 1, #coded, 5 do
                local enc, dec = cipher.encryptor(name, key, iv), cipher.decryptor(name, key, iv)
                local out, back = "", ""
                for at = 1, #text, size do out = out .. enc:update(text:sub(at, at + size - 1)) end
                assert(out .. enc:final() == coded, name)
                for at = 1, #coded, size do
                    back = back .. dec:update(coded:sub(at, at + size - 1))
                end
                assert(back .. dec:final() == text, name)
            end
        end
        assert(count == 30)
        assert(cipher.encryptor("DES-EDE3", key:sub(1, 24)):final(text)
            == cipher.encryptor("des-ede3-ecb", key:sub(1, 24)):final(text))
        -- GB/T 32907 appendix A and RFC 3713 appendix A have the same key and text.
        local both = raw "0123456789abcdeffedcba9876543210"
        local function first(name) return hex(cipher.encryptor(name, both):update(both)) end
        assert(first "sm4-ecb" == "681edf34d206965e86b3e94f536e4246")
        assert(first "camellia-128-ecb" == "67673138549669730857065648eabe43")"#,
    );
    raises(
        "cipher.encryptor('des-ede3-cbc', ('k'):rep(24), ('i'):rep(16))",
        "bad argument #3 to 'encryptor' (des-ede3-cbc needs an iv of 8 bytes, got 16)",
    );
}

/// GCM's own specification, test cases 4 and 16; RFC 8439 section 2.8.2.
#[test]
fn authenticated_ciphers() {
    holds(
        r#"
        local aad = raw "feedfacedeadbeeffeedfacedeadbeefabaddad2"
        local text = raw [[d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72
            1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39]]
        local key = "feffe9928665731c6d6a8f9467308308"
        local cases = {
            {"aes-128-gcm", key, "cafebabefacedbaddecaf888", aad, text,
                [[42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e
                21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091]],
                "5bc94fbc3221a5db94fae95ae7121a47"},
            {"aes-256-gcm", key .. key, "cafebabefacedbaddecaf888", aad, text,
                [[522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa
                8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662]],
                "76fc6ece0f4e1768cddf8853bb2d551b"},
            {"chacha20-poly1305",
                "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
                "070000004041424344454647", raw "50515253c0c1c2c3c4c5c6c7",
                "Ladies and Gentlemen of the class of '99: If I could offer you only one tip " ..
                    "for the future, sunscreen would be it.",
                [[d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6
                3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36
                92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc
                3ff4def08e4b7a9de576d26586cec64b6116]],
                "1ae10b594f09e26a7e902ecbd0600691"},
        }
        for _, case in ipairs(cases) do
            local name, key, iv, aad, text = case[1], raw(case[2]), raw(case[3]), case[4], case[5]
            local enc = cipher.encryptor(name, key, iv)
            enc:setaad(aad:sub(1, 5))
            enc:setaad(aad:sub(6))
            local coded = enc:update(text:sub(1, 7)) .. enc:final(text:sub(8))
            assert(coded == raw(case[6]) and hex(enc:tag()) == case[7], name)
            local function open(aad, coded, tag)
                local dec = cipher.decryptor(name, key, iv)
                dec:setaad(aad)
                dec:settag(tag)
                assert(dec:update(coded:sub(1, 20)) == "")
                return dec:final(coded:sub(21))
            end
            assert(open(aad, coded, enc:tag()) == text, name)
            local value, reason = open(aad .. "x", coded, enc:tag())
            assert(value == nil and reason == "the tag does not match the message", name)
            assert(open(aad, "x" .. coded:sub(2), enc:tag()) == nil)
            assert(open(aad, coded, ("x"):rep(16)) == nil)
        end"#,
    );
}

#[test]
fn wrong_use_of_a_cipher() {
    let make = |arguments: &str| format!("return cipher.encryptor({arguments})");
    raises(&make("'rot13', ''"), "bad argument #1 to 'encryptor' (unknown cipher 'rot13')");
    raises(
        &make("'aes-128-cbc', 'short', ('i'):rep(16)"),
        "bad argument #2 to 'encryptor' (aes-128-cbc needs a key of 16 bytes, got 5)",
    );
    raises(
        &make("'aes-256-gcm', ('k'):rep(32), ('i'):rep(16)"),
        "bad argument #3 to 'encryptor' (aes-256-gcm needs an iv of 12 bytes, got 16)",
    );
    raises(
        &make("'aes-128-ctr', ('k'):rep(16)"),
        "bad argument #3 to 'encryptor' (aes-128-ctr needs an iv of 16 bytes, got 0)",
    );
    let with = |steps: &str| {
        format!("local c = cipher.encryptor('aes-128-gcm', ('k'):rep(16), ('i'):rep(12)) {steps}")
    };
    raises(&with("c:final() c:update('')"), "'update' after 'final': 'reset' first");
    raises(&with("c:tag()"), "'tag' before 'final' of an encryptor");
    raises(&with("c:settag('x')"), "bad argument #1 to 'settag' (16 bytes expected)");
    raises(
        "cipher.decryptor('aes-128-gcm', ('k'):rep(16), ('i'):rep(12)):final('')",
        "'final' before 'settag'",
    );
    raises("cipher.encryptor('aes-128-ecb', ('k'):rep(16)):tag()", "'tag': aes-128-ecb has no tag");
    holds(
        r#"
        local key, iv = ("k"):rep(16), ("i"):rep(16)
        local coded = cipher.encryptor("aes-128-cbc", key, iv):final("hello")
        local value, reason = cipher.decryptor("aes-128-cbc", ("x"):rep(16), iv):final(coded)
        assert(value == nil and reason == "bad padding", reason)
        value, reason = cipher.decryptor("aes-128-cbc", key, iv):final(coded:sub(2))
        assert(value == nil and reason == "the data ends within a block", reason)
        local enc = cipher.encryptor("aes-128-cbc", key, iv)
        enc:setpadding(0)
        value, reason = enc:final("hello")
        assert(value == nil and reason:find("padding is off"), reason)"#,
    );
}

#[test]
fn random_and_small_things() {
    holds(
        r#"
        assert(#utils.randomkey(0) == 0 and #utils.random(0) == 0)
        local key, seen = utils.randomkey(20000), {}
        assert(#utils.randomkey(2 << 20) == 2 << 20)
        assert(#key == 20000 and key:match("^%l+$") and key ~= utils.randomkey(20000))
        for letter in key:gmatch(".") do seen[letter] = (seen[letter] or 0) + 1 end
        for letter = ("a"):byte(), ("z"):byte() do
            -- 769 expected; six standard deviations are 163
            local count = seen[string.char(letter)]
            assert(count > 600 and count < 940, count)
        end
        assert(#utils.random(32) == 32 and utils.random(32) ~= utils.random(32))
        assert(utils.xor("\1\2", "abc") == "\x60\x60\x62")
        assert(utils.xor("key", utils.xor("key", "some data")) == "some data")
        assert(utils.equal("same", "same") and not utils.equal("same", "sama"))
        assert(not utils.equal("same", "sam") and utils.equal("", ""))"#,
    );
    raises("utils.xor('', 'x')", "bad argument #1 to 'xor' (an empty key)");
    raises(
        "utils.randomkey(-1)",
        "bad argument #1 to 'randomkey' (a number from 0 to 67108864 expected, got -1)",
    );
}

#[test]
fn keys_are_read_in_every_form() {
    holds(
        r#"
        for name, pem in pairs(pems) do
            local key, reason = pkey.new(pem, name:find("encrypted") and "secret" or nil)
            assert(key, reason)
            local data, signature = "signed data", nil
            if not name:find("public") then
                signature = assert(key:sign(data, "sha512"))
                local public = pkey.new(pems[name:match("%w+") .. " public"])
                assert(public:verify(data, signature, "sha512") == true, name)
                assert(public:verify("other data", signature, "sha512") == false, name)
                assert(public:verify(data, signature, "sha384") == false, name)
                assert(public:verify(data, signature:sub(2), "sha512") == false, name)
                assert(key:verify(data, signature, "sha512"), name)
            else
                local value, reason = key:sign(data, "sha512")
                assert(value == nil and reason == "the key is public", name)
            end
        end
        local function refuses(pem, password, reason)
            local key, found = pkey.new(pem, password)
            assert(key == nil and found == reason, found)
        end
        refuses("", nil, "there is no PEM block")
        refuses(pems["rsa encrypted"], nil, "the key is encrypted, and there is no password")
        refuses(pems["rsa encrypted"], "wrong", "the password is wrong, or there is no key inside")
        refuses(pems.rsa:gsub("M", "N"), nil,
            "the 'PRIVATE KEY' is damaged, or of a kind that is not supported")
        refuses("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----", nil,
            "a PEM block of 'CERTIFICATE' is not a key")
        refuses("-----BEGIN PUBLIC KEY-----\nMFYw", nil, "there is no PEM block")"#,
    );
}

#[test]
fn keys_and_signatures_of_openssl() {
    holds(
        r#"
        local rsa = pkey.new(pems["rsa public"])
        local signature = raw [[
            6e366fdba410fd6f95b8fb387e7532256a499e5031e02e841e0e6730ee88f010a8e8793200de0a1c
            a8a86e0ac90883dbcb6e0861a036a14762129ee8455a8c2debe45d6f5198b94fc1294cedcc1b94ea
            bb93324039369207afa2d5dd571073df95c83682c7994b0dd3bc84b8b27a4ce4b2ace04ce2925d68
            52642df7c7f51d58760346c9cb2a6a710e70ac1969806d5a3f943f360db2d0196cb53b7ad171cfc3
            5d5bd176f747c6d60a841dd7202cf5a0e143389d4e83616899f4f8c7b753bb53938f80835e21cabb
            e584683fa3993b9a6a33e658d942a2e759855dcd900eda79c02dcdd0b19ad12245b589bff798dbe5
            cdb81a3f3e5f93998097c344ac632969]]
        assert(rsa:verify("signed data", signature, "sha256") == true)
        assert(pkey.new(pems.rsa):sign("signed data", "sha256") == signature)
        assert(pkey.new(pems["p384 public"]):verify("signed data", raw [[
            306402307fc3deaf50e36a0046a6b5a3949122ccb44081c25b09f73b9d0d9841370aef47af2c9361
            6cb805d525c834b229835e36023017e38d66f3bc6a199756879bfe926cc87ec3ae4624fb1516eac5
            cf9d2d45079749d358065cfbe27153fcb6b39aadb2a2]], "sha384") == true)
        -- s in the lower half of its range, and in the upper one.
        local k256 = pkey.new(pems["k256 public"])
        assert(k256:verify("signed data", raw [[
            3045022100da468ab048bcda9d15e0fec6997990f4bebbdf29d82b853e0c0e7f0d8b10b1f102204e
            51ad9567cfeea803ceea1a17a1e8eb56d588a93db94dccd78c342f82c6af01]], "sha256") == true)
        assert(k256:verify("signed data", raw [[
            3046022100d7fb9e88fab0542997e6ff42dd5d27c6999a628555ed31c9f72578e1367b6e8d022100
            ac49a66f0bd7c67ef37f48e285c0a3fb03c767977d40a9c9a8eeea4b9cb9739a]], "sha256") == true)
        local sealed = raw [[
            4d8beec2d0a4b8ce8d5b3ffdf0338324e0bdb212fbfb67b6ec214c8c3f74d432c786425a962a7f83
            f037ddfcaabfaafbef20bb19b552c3adb22abd91bf1f4b78d88b1bc0b7c19bbf12ec51599f3bfd4b
            544c1b409bb5422431fd1cc2113765a4ec760c67f5ead8f6dbbab23fe4945a96d3d15dc2998b257c
            2d6f3ac30a5bb57c820b653adb242b22e38501f540974751f495ede1bcdc8d24bac485a6f7969ddd
            7524fd317bfb2562d4afc6ece1ff19dd3a0f07a6f320d636dc1d78087e22a176f8221dbbafb78bbe
            4dc245537e0cfed90c7d91c42387f258b75c1fcbaf8bdfe1a478e9fa423c51084e2fa10c237bd961
            74dbdb47b9741496b9d6e9f1d76f52a6]]
        assert(pkey.new(pems.rsa):decrypt(sealed, pkey.RSA_PKCS1_OAEP, "sha256") == "top secret")
        local value, reason = pkey.new(pems.rsa):decrypt(sealed, pkey.RSA_PKCS1_OAEP, "sha1")
        assert(value == nil and reason == "decryption failed", reason)"#,
    );
}

#[test]
fn encryption_with_rsa() {
    holds(
        r#"
        local public, private = pkey.new(pems["rsa public"]), pkey.new(pems.rsa)
        for _, padding in ipairs {{}, {pkey.RSA_PKCS1}, {pkey.RSA_PKCS1_OAEP},
            {pkey.RSA_PKCS1_OAEP, "sha256"}, {pkey.RSA_PKCS1_OAEP, "sha512"}} do
            local sealed = assert(public:encrypt("a message", table.unpack(padding)))
            assert(#sealed == 256 and sealed ~= public:encrypt("a message", table.unpack(padding)))
            assert(private:decrypt(sealed, table.unpack(padding)) == "a message")
            local value, reason = public:decrypt(sealed, table.unpack(padding))
            assert(value == nil and reason == "the key is public")
        end
        assert(public:encrypt(("x"):rep(300)) == nil)
        local value, reason = pkey.new(pems.p256):encrypt("x")
        assert(value == nil and reason == "only RSA keys encrypt")"#,
    );
    let with = |call: &str| format!("pkey.new(pems.rsa):{call}");
    raises(&with("sign('', 'crc')"), "bad argument #2 to 'sign' (unknown hash algorithm 'crc')");
    holds(
        "local v, r = pkey.new(pems.rsa):encrypt('', 3) assert(v == nil and r:find('padding 3'))",
    );
    raises(
        &with("decrypt('', 4, 'md5')"),
        "bad argument #3 to 'decrypt' (the hash cannot be used: 'md5')",
    );
    holds("local v, r = pkey.new(pems.rsa):sign('', 'sha3-256') assert(v == nil and r)");
}
