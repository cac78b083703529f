//! The table of rules.
//!
//! Expressions see normalized text (`normalize`): decoded, in lower case, each run of white space
//! one space, comments of SQL removed. Score 5 is an attack by itself at the default threshold;
//! what also occurs in ordinary text scores less.

/// A part of a request, for which a rule is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The name or the value of a parameter in query or body.
    Argument,
    Cookie,
    /// The path as it was received.
    Path,
    /// The value of a header that applications read.
    Header,
    UserAgent,
}

impl Part {
    /// In the order of their discriminants.
    pub(crate) const ALL: [Part; 5] =
        [Part::Argument, Part::Cookie, Part::Path, Part::Header, Part::UserAgent];
}

/// One rule.
#[derive(Debug)]
pub struct Rule {
    /// Its name in `exclude` and in logs: the category, then what it finds.
    pub name: &'static str,
    pub score: u32,
    /// The parts of a request that it inspects.
    pub parts: &'static [Part],
    pub pattern: &'static str,
}

impl Rule {
    /// The word before the first dash.
    pub fn category(&self) -> &'static str {
        self.name.split('-').next().unwrap_or_default()
    }
}

/// The categories, for counters. `rule` are rules of the configuration.
pub const CATEGORIES: [&str; 7] =
    ["sql", "xss", "traversal", "command", "scanner", "protocol", "rule"];

const ARGUMENTS: &[Part] = &[Part::Argument, Part::Cookie];
const EVERYWHERE: &[Part] = &[Part::Argument, Part::Cookie, Part::Path, Part::Header];
const PATH: &[Part] = &[Part::Path];
const AGENT: &[Part] = &[Part::UserAgent];

const fn rule(
    name: &'static str,
    score: u32,
    parts: &'static [Part],
    pattern: &'static str,
) -> Rule {
    Rule { name, score, parts, pattern }
}

/// The rules, by category.
pub static RULES: &[Rule] = &[
    rule("sql-union", 5, ARGUMENTS, r"\bunion (?:all |distinct )?\(? ?select\b"),
    rule(
        "sql-tautology",
        5,
        ARGUMENTS,
        concat!(
            r#"['"`] ?\)* ?(?:or|and|xor|\|\||&&) ?\(* ?(?:not )?"#,
            r#"['"`]?\w*['"`]? ?(?:=|<>|<|>|like\b)"#,
        ),
    ),
    rule("sql-numeric-tautology", 5, ARGUMENTS, r"\b(?:or|and) \(?(\d+) ?= ?\(?\d+\b"),
    rule(
        "sql-stacked",
        5,
        ARGUMENTS,
        concat!(
            r"; ?(?:(?:drop|alter|create|truncate) (?:table|database|user|view|function)",
            r"|insert into \w|delete from \w|update \w+ set |exec(?:ute)? |declare @",
            r"|shutdown\b)",
        ),
    ),
    rule("sql-comment", 4, ARGUMENTS, r#"\w?['"`] ?\)* ?;? ?(?:--(?: |$)|#$)"#),
    rule("sql-trailing-comment", 3, ARGUMENTS, r#"['"`] ?\)* ?;? ?-- ?-? ?$"#),
    rule("sql-open-comment", 5, ARGUMENTS, r#"['"`] ?\)* ?;? ?/\*$"#),
    rule(
        "sql-called-function",
        3,
        ARGUMENTS,
        concat!(
            r#"['")\d] ?(?:and|or|xor|\|\||&&|;|,)? ?"#,
            r"(?:sleep|benchmark|pg_sleep|extractvalue|updatexml) ?\(",
        ),
    ),
    rule(
        "sql-subselect",
        5,
        ARGUMENTS,
        r"(?:\b(?:rlike|regexp|exists|in|and|or|not)|[=<>]) ?\( ?select\b",
    ),
    rule(
        "sql-function",
        4,
        ARGUMENTS,
        concat!(
            r"\b(?:sleep|benchmark|pg_sleep|extractvalue|updatexml|load_file|group_concat",
            r"|dbms_\w+\.\w+|utl_http\.\w+) ?\(",
        ),
    ),
    rule("sql-delay", 5, ARGUMENTS, r#"\bwaitfor delay ['"]|\bxp_(?:cmdshell|dirtree|regread)\b"#),
    rule(
        "sql-schema",
        5,
        ARGUMENTS,
        concat!(
            r"\binformation_schema\.|\bsys\.?(?:objects|columns|databases)\b",
            r"|\bpg_catalog\.|\bsqlite_master\b|\ball_tables\b",
        ),
    ),
    rule("sql-outfile", 5, ARGUMENTS, r#"\binto (?:out|dump)file ['"]"#),
    rule("sql-select", 2, ARGUMENTS, r"\bselect .{1,100}?\bfrom \S"),
    rule("sql-quote-select", 3, ARGUMENTS, r#"['")] ?(?:;|\)|and|or|\|\|)? ?\(? ?select\b"#),
    rule("sql-order-by", 5, ARGUMENTS, r#"['")] ?(?:order by|group by|having) \d"#),
    rule("sql-operator-name", 5, ARGUMENTS, r"\[\$(?:ne|gte?|lte?|where|regex|n?in|exists)\]"),
    rule("xss-script", 5, EVERYWHERE, r"< ?/? ?script\b"),
    rule("xss-handler", 5, EVERYWHERE, r"<[a-z!/][^>]{0,200}[ /\x22']on[a-z]{3,20} ?="),
    rule(
        "xss-attribute",
        4,
        EVERYWHERE,
        concat!(
            r#"['"] ?/?>? ?on(?:error|load|click|focus|blur|mouse[a-z]+|pointer[a-z]+"#,
            r#"|toggle|start|animation[a-z]+) ?="#,
        ),
    ),
    // Browsers skip tabs and line breaks within the scheme.
    rule(
        "xss-url",
        5,
        EVERYWHERE,
        r"(?:^|[\x22'=( ]) ?(?:j ?a ?v ?a|v ?b) ?s ?c ?r ?i ?p ?t ?:[^ ]",
    ),
    rule("xss-data-url", 5, EVERYWHERE, r"data: ?text/html|data: ?image/svg\+xml[^ ]*,.*<"),
    rule(
        "xss-tag",
        3,
        EVERYWHERE,
        r"< ?(?:iframe|object|embed|applet|base|svg|math|meta|form|marquee|isindex|xml)[ />]",
    ),
    rule(
        "xss-dom",
        3,
        EVERYWHERE,
        concat!(
            r"\bdocument ?\. ?(?:cookie|write|location|domain)\b",
            r"|\bwindow ?\. ?(?:location|name)\b|\bfromcharcode\b",
        ),
    ),
    rule("xss-call", 3, EVERYWHERE, r#"(?:^|[\x22';>}]) ?(?:alert|confirm|prompt|eval) ?[(`]"#),
    rule("traversal-parent", 3, ARGUMENTS, r"(?:^|[\\/])\.\.[\\/]"),
    rule("traversal-parents", 3, ARGUMENTS, r"\.\.[\\/]+\.\.[\\/]"),
    rule("traversal-encoded", 5, PATH, r"%2e(?:%2e|\.)|\.%2e|\.\.%2f|\.\.%5c|%c0%ae|\.\.;/"),
    rule(
        "traversal-file",
        5,
        &[Part::Argument, Part::Cookie, Part::Path],
        concat!(
            r"/etc/(?:passwd|shadow|group|hosts|crontab)\b|/proc/(?:self|version|\d+)(?:/",
            r"|$)|\bboot\.ini\b|\bwin\.ini\b|\bwindows[\\/]+system32\b|\bweb-inf[\\/]",
            r"|\.ssh[\\/](?:id_|authorized)",
        ),
    ),
    rule(
        "traversal-wrapper",
        5,
        ARGUMENTS,
        concat!(
            r"\b(?:php|phar|expect|gopher|dict|ogg|ssh2|glob|zip|compress\.zlib)://",
            r"|^file://|^jar:https?://",
        ),
    ),
    rule(
        "scanner-path",
        5,
        PATH,
        concat!(
            r"/\.(?:git|svn|hg|env|aws|ssh|htaccess|htpasswd|ds_store|vscode|idea)(?:[./]",
            r"|$)|/wp-config\.php|/phpinfo\.php|/(?:phpunit/src|cgi-bin/\.)",
            r"|/server-status$|/actuator/(?:env|heapdump)|/vendor/phpunit",
        ),
    ),
    rule(
        "scanner-backup",
        3,
        PATH,
        r"\.(?:bak|swp|old|sql|sql\.gz|dump)$|/(?:backup|dump|db)\.(?:zip|tar|tgz|tar\.gz)$",
    ),
    rule(
        "scanner-agent",
        5,
        AGENT,
        concat!(
            r"sqlmap|nikto|nessus|acunetix|nmap scripting|masscan|dirbuster|gobuster",
            r"|wpscan|zgrab|nuclei|havij|w3af|openvas|arachni|\bffuf\b|feroxbuster",
            r"|skipfish|whatweb|netsparker|jorgee|commix|morfeus",
        ),
    ),
    rule(
        "command-shell",
        5,
        ARGUMENTS,
        concat!(
            r"(?:[;|`\n]|&&|\$\() ?(?:/(?:usr/)?s?bin/|whoami\b|uname\b|wget |curl |ncat |bash\b",
            r"|nslookup |powershell\b|printenv\b|cat [/.~]|ls -|ping -|rm -|chmod [+\d]|id -",
            r"|python\d? -|perl -|ruby -|nc -|net user)",
        ),
    ),
    rule(
        "command-substitution",
        5,
        ARGUMENTS,
        r"\$\( ?[a-z]{2,12}[ )/]|` ?(?:id|ls|cat|sh|env|echo|sleep|ping|nc|rm)(?: [^`]{0,80})?`",
    ),
    rule(
        "command-name",
        3,
        ARGUMENTS,
        r"(?:[;|\n]|&&) ?(?:cat|ls|id|sh|ping|echo|sleep|env|nc|rm)(?: |$)",
    ),
    rule("command-windows", 5, ARGUMENTS, r"\bcmd(?:\.exe)? /[ck] "),
    rule(
        "command-path",
        4,
        ARGUMENTS,
        r"(?:^|[ ;|`(=])/(?:usr/)?bin/(?:ba|z|da|k)?sh\b|\bcmd\.exe\b|\bpowershell(?:\.exe)? -",
    ),
    rule(
        "command-jndi",
        5,
        EVERYWHERE,
        r"\$\{ ?(?:jndi ?:|(?:lower|upper|env|sys|java|date)[:}]|[^}]{0,40}:-)",
    ),
    rule(
        "command-jndi-agent",
        5,
        AGENT,
        concat!(
            r"\$\{ ?(?:jndi ?:|(?:lower|upper|env|sys|java):|[^}]{0,40}:-)",
            r"|\(\) ?\{ ?[^}]{0,8}; ?\} ?;|<\?php|< ?script\b",
        ),
    ),
    rule("command-shellshock", 5, EVERYWHERE, r"\(\) ?\{ ?[^}]{0,8}; ?\} ?;"),
    rule(
        "command-template",
        5,
        ARGUMENTS,
        r"(?:\{\{|\$\{|#\{|<%=?|\{%) ?\d+ ?[*+] ?'?\d+|\{\{ ?(?:config|self|request|''|\[\])[.|_}]",
    ),
    rule("command-python", 5, ARGUMENTS, r"__(?:class|globals|subclasses|import|builtins|mro)__"),
    rule(
        "command-php",
        5,
        ARGUMENTS,
        concat!(
            r"<\?(?:php|=)|\b(?:shell_exec|passthru|proc_open|popen|base64_decode",
            r"|call_user_func|phpinfo) ?\(",
        ),
    ),
    rule("command-system", 3, ARGUMENTS, r#"(?:^|[;=({ ])(?:system|exec|assert|eval) ?\( ?['"$]"#),
    rule(
        "command-java",
        5,
        ARGUMENTS,
        concat!(
            r"java\.lang\.(?:runtime|processbuilder|class)|getruntime\(|#_memberaccess",
            r"|ognl\.|class\.module\.classloader",
        ),
    ),
    rule("command-prototype", 5, ARGUMENTS, r"__proto__|\bconstructor ?[\[.]+ ?['\x22]?prototype"),
    rule(
        "command-metadata",
        4,
        ARGUMENTS,
        r"://169\.254\.169\.254|://metadata\.google\.internal|://\[::ffff:169\.254",
    ),
    rule("command-xxe", 5, ARGUMENTS, r"<!(?:doctype|entity)\b[^>]{0,200}\b(?:system|public)\b"),
    rule("command-ldap", 4, ARGUMENTS, r"\)\( ?[|&!]? ?\(?(?:\w{1,20}=\*|[|&])|\*\)\("),
    rule(
        "protocol-header",
        5,
        ARGUMENTS,
        concat!(
            r"\n ?(?:(?:set-cookie|content-length|transfer-encoding) ?:",
            r"|location ?: ?https?:|http/1\.)",
        ),
    ),
    rule("protocol-nul", 5, EVERYWHERE, r"\x00"),
    rule(
        "protocol-overlong",
        5,
        EVERYWHERE,
        concat!(
            r"%c[01]%(?:[89ab][0-9a-f]|1c)|%u00[0-9a-f]{2}|[\xc0\xc1][\x80-\xbf]|\xc1\x1c",
            r"|\xe0[\x80-\x9f][\x80-\xbf]",
        ),
    ),
    // Of a part of a form: browsers do not encode parts (RFC 7578 4.7).
    rule(
        "protocol-part-encoding",
        5,
        &[Part::Argument],
        r"^content-transfer-encoding ?: ?(?:base64|quoted-printable)",
    ),
];
