"""Secrets in the calls of code, such as fields of pages that are filled in and keys of ciphers, and in SQL."""

from __future__ import annotations

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.redaction.detection.tables import (
    QUOTED,
    SPACE,
    TEXT,
    Row,
    has_digit_or_sign,
    is_made_up,
    is_no_number,
    row,
)
from agenttape_core.redaction.detection.values import is_opaque

FIELD = (
    r"(?i:passw|passcode|passphrase|\bpass\b|pwd\b|\bpin\b|\botp\b|secret|api[-_ ]?key|\btoken|\bcv[vc]\b"
    r"|security[-_ ]code|kennwort|contrase|mot[ ]de[ ]passe|senha)"
)
"""Names of the field of a page into which people type a secret."""
IS_FIELD = Lazy(FIELD)
_SELECTOR = (
    rf"""\\{{0,3}}(?:"(?=[^"\n]{{0,120}}?{FIELD})[^"\n]{{0,200}}+"|'(?=[^'\n]{{0,120}}?{FIELD})[^'\n]{{0,200}}+'"""
    rf"""|`(?=[^`\n]{{0,120}}?{FIELD})[^`\n]{{0,200}}+`)"""
)
_TYPES = (
    *(".fill(", ".type(", ".presssequentially(", ".press_sequentially(", ".setvalue(", ".set_value("),
    *(".send_keys(", ".sendkeys(", ".settext(", ".set_text(", ".enter_text(", ".entertext(", ".input_text("),
)
"""The methods that type into a page, of Playwright, Selenium, Puppeteer, Cypress, WebdriverIO and Appium."""
_KEY = r"""\\{0,7}["']?(?:text|value|keys|input|input_text)\\{0,7}["']?\s{0,8}[:=]\s{0,8}"""
_PLAIN = r"(?:\{[^{}\n]{0,200}\}|[^,()\n{}]{1,120})"
"""An argument that is no call."""
_BYTES = r"(?:[bB](?=[\\\"']))?"
_LEAST_SALT = 24


def _is_salt(value: str) -> bool:
    return len(value) >= _LEAST_SALT and has_digit_or_sign(value) and " " not in value


def _is_long(value: str) -> bool:
    return is_opaque(value.removeprefix("0x"))


CODE: tuple[Row, ...] = (
    row(("basicauth(", "basic_auth("), r"[ ]?[\w.]{1,60},[ ]?(?:Some\()?" + QUOTED,
        'r.withBasicAuth(user, "⟦b4sicOwl⟧")', 'r.withBasicAuth(user, "password")', is_secret=has_digit_or_sign,
        words="basicauth basic_auth withbasicauth setbasicauth httpbasicauth"),
    row(_TYPES, rf"[ ]?{_SELECTOR},[ ]?{QUOTED}", 'page.fill("#password", "⟦playWr1ght⟧")',
        'page.fill("#user", "bob"); page.click("#password")'),
    row(_TYPES, rf"[ ]?{QUOTED}[ ]?[,)]", "page.getByLabel('Password').fill('⟦playWr1ght⟧')",
        "page.getByLabel('Password').click(); page.getByLabel('Name').fill('Bob')",
        before=rf"""["'`][^"'`\n]{{0,120}}?{FIELD}[^()\n]{{0,80}}\){{1,3}}(?:\.\w{{1,16}}(?:\(\d?\))?)?"""),
    row(_TYPES, rf"[ ]?{QUOTED}[ ]?[,)]", 'self.password_input.send_keys("⟦s3lenium77⟧")',
        'self.user_input.send_keys("bob77")', before=r"(?i:passw|passcode|pwd)\w{0,20}(?:\(\))?"),
    row((".value = ", ".value="), QUOTED, 'document.querySelector("#password").value = "⟦playWr1ght⟧"',
        'document.querySelector("#city").value = "playWr1ght"',
        before=rf"""["'`][^"'`\n]{{0,120}}?{FIELD}[^()\n]{{0,80}}(?:\)|=>[ ]?\w{{1,16}})"""),
    row(("selector", "element", "locator", "xpath", "target"),
        rf"""\\{{0,7}}["']?\s{{0,8}}[:=]\s{{0,8}}{_SELECTOR},(?:[^{{}}]{{0,160}}?,)?\s{{0,40}}{_KEY}{QUOTED}""",
        '{"element": "Password textbox", "ref": "e12", "text": "⟦playWr1ght⟧"}',
        '{"element": "Search textbox", "ref": "e12", "text": "playWr1ght"}'),
    row("textbox ", rf"""\\{{0,7}}"(?=[^"\n]{{0,120}}?{FIELD})[^"\n]{{0,200}}+"(?:[ ]\[[^\]\n]{{1,40}}\]){{0,8}}:[ ]"""
        r"""(?P<secret>[^\s"'`\\][^\n"`\\]{1,256})""", '- textbox "Password" [active] [ref=e12]: ⟦playWr1ght⟧',
        '- textbox "Password" [ref=e12]\n- textbox "City" [ref=e13]: playWr1ght'),
    row('" -> ', QUOTED, '  ~ password = (sensitive)\n  ~ db_password = "<old>" -> "⟦n3wHarbor8⟧"',
        '  ~ password_policy = "strict" -> "stricter2"',
        before=r"""(?P<name>[\w.-]{1,64})[ ]{1,40}=[ ]\\{0,3}"[^"\n]{0,200}"""),
    row("random_password", rf"""[^{{}}]{{0,80}}\{{[^{{}}]{{0,400}}?\bresult[ ]{{1,24}}=[ ]{QUOTED}""",
        'resource "random_password" "db" {\n  result = "⟦Kestrel-4419-xk⟧"\n}',
        'resource "random_password" "db" {\n  length = 15\n}'),
    row("sensitive", rf"""\\{{0,7}}"\s{{0,8}}:\s{{0,8}}true\s{{0,8}},(?:[^{{}}]{{0,160}}?,)?"""
        rf"""\s{{0,40}}\\{{0,7}}"value\\{{0,7}}"\s{{0,8}}:\s{{0,8}}{QUOTED}""",
        '"db_root": {"sensitive": true, "type": "string", "value": "⟦Zq7v-Lammer⟧"}',
        '"region": {"sensitive": false, "type": "string", "value": "eu-west-1"}'),
    row(("jwt.encode(", "jwt.decode(", "jwt.sign(", "jwt.verify("), rf"{SPACE}{_PLAIN},{SPACE}{_BYTES}{QUOTED}",
        'jwt.encode(payload, "⟦jwtHmacKey77⟧", algorithm="HS256")',
        'jwt.decode(token, public_key, algorithms=["RS256"])', words="jwt"),
    row(("createhmac(", "createcipheriv(", "createdecipheriv(", "pbkdf2_hmac("),
        rf"{SPACE}{TEXT},{SPACE}{_BYTES}{QUOTED}", "crypto.createHmac('sha256', '⟦hmacKey77xx⟧')",
        "crypto.createHmac('sha256', process.env.KEY)"),
    row(("hash_hmac(", "openssl_encrypt(", "openssl_decrypt("), rf"{SPACE}{_PLAIN},{SPACE}{_PLAIN},{SPACE}{QUOTED}",
        "hash_hmac('sha256', $data, '⟦hmacKey77xx⟧')", "hash_hmac('sha256', $data, $key)"),
    row(("aes.encrypt(", "aes.decrypt(", "hmacsha256(", "hmacsha1(", "hmacsha512("),
        rf"{SPACE}{_PLAIN},{SPACE}{QUOTED}", 'CryptoJS.AES.encrypt(text, "⟦aesKey77xx⟧")',
        "CryptoJS.AES.encrypt(text, key)", words="aes hmacsha256 hmacsha1 hmacsha512"),
    row(("hmac.new(", "aes.new(", "fernet(", "timedserializer(", "urlsafeserializer(", "cookieparser("),
        rf"(?:key=)?{_BYTES}{QUOTED}", 'hmac.new(b"⟦hmacKey77xx⟧", message, hashlib.sha256)',
        "hmac.new(key, message, hashlib.sha256)",
        words="hmac aes fernet timedserializer urlsafetimedserializer urlsafeserializer cookieparser"),
    row(("scryptsync(", "scrypt(", "pbkdf2(", "rfc2898derivebytes(", "aesgcm(", "secretbox(", "hmacshakeyfor("),
        rf"{SPACE}{_BYTES}{QUOTED}", "crypto.scryptSync('⟦aesKey77xx⟧', salt, 32)",
        "crypto.scryptSync(password, salt, 32)"),
    row((".hmac256(", ".hmac384(", ".hmac512(", "signwith("), rf"{SPACE}(?:{_PLAIN},{SPACE})?{QUOTED}",
        'JWT.create().sign(Algorithm.HMAC256("⟦jwtHmacKey77⟧"))', "JWT.create().sign(Algorithm.HMAC256(key))"),
    row(("hmac.new(", "signedstring(", "createsecretkey("),
        rf"(?:[\w.]{{1,40}},[ ]?)?(?:\[\]byte|Buffer\.from)\({QUOTED}", 'hmac.New(sha256.New, []byte("⟦hmacKey77xx⟧"))',
        "hmac.New(sha256.New, []byte(key))"),
    row("hmac.hexdigest(", rf"{SPACE}{_PLAIN},{SPACE}{QUOTED}",
        "OpenSSL::HMAC.hexdigest('SHA256', '⟦hmacKey77xx⟧', data)", "OpenSSL::HMAC.hexdigest('SHA256', key, data)"),
    row(("fillfield(", "fill_in(", "fill_in "), rf"[ ]?{_SELECTOR},[ ]?(?:with:[ ])?(?:secret\()?{QUOTED}",
        "I.fillField('password', secret('⟦playWr1ght⟧'))", "I.fillField('city', 'playWr1ght')"),
    row("input password ", r"[ ]{1,8}\S{1,80}[ ]{2,8}(?P<secret>[^\s$]\S{2,128})",
        "Input Password    id:pw    ⟦playWr1ght⟧", "Input Password    id:pw    ${PASSWORD}"),
    row("secretkeyspec(", rf"{QUOTED}\.getBytes", 'new SecretKeySpec("⟦aesKey77xx⟧".getBytes(UTF_8), "AES")',
        'new SecretKeySpec(bytes, "AES")'),
    row(("bcrypt.hashpw(", "bcrypt.checkpw(", "bcrypt.hash(", "bcrypt.compare(", "argon2.hash("),
        rf"{SPACE}{_BYTES}{QUOTED}", 'bcrypt.hashpw(b"⟦bobsPass77⟧", bcrypt.gensalt())',
        "bcrypt.hashpw(password, bcrypt.gensalt())", words="bcrypt argon2"),
    row(("password_hash(", "password_verify(", "make_password(", "check_password_hash(", "hash_password("),
        rf"{SPACE}{QUOTED}", "generate_password_hash('⟦bobsPass77⟧')",
        "generate_password_hash(entered, method='scrypt')",
        words="password_hash generate_password_hash get_password_hash check_password_hash password_verify "
        "make_password hash_password"),
    row(("ethers.wallet(", "account.from_key(", "privatekeytoaccount(", "new wallet("), QUOTED,
        'Account.from_key("⟦0x4c0883a69102937d6231471b5dbb6204fe512961708279f1d4f3c8a1b2e7d9c5⟧")',
        'Account.from_key("key.json")', is_secret=_is_long, words="wallet from_key privatekeytoaccount"),
    row("define(", rf"""{SPACE}["']\w{{0,24}}(?:_SALT|_KEY)["'],\s{{0,24}}{QUOTED}""",
        "define('NONCE_SALT', '⟦k3x9pz-2v7w8qm4n.b6c_d5fg1hj+k3x9pz2v7w⟧');", "define('CACHE_KEY', 'pages');",
        is_secret=_is_salt),
    row(("getconnection(", "mysqli(", "mysqli_connect(", "new pdo("),
        rf"{SPACE}(?:{TEXT}|[\w.$>\[\]-]{{1,80}}),{SPACE}(?:\d{{1,5}},{SPACE})?{TEXT},{SPACE}{QUOTED}",
        'DriverManager.getConnection(url, "bob", "⟦t1gerLily⟧")', 'DriverManager.getConnection(url, "bob", "secret")',
        is_secret=has_digit_or_sign),
    row(".connect(", rf"{SPACE}(?:{TEXT}|[\w.$>\[\]-]{{1,80}}),{SPACE}(?:\d{{1,5}},{SPACE})?{TEXT},{SPACE}{QUOTED}",
        'ftp.connect("ftp.example.org", "bob", "⟦t1gerLily7⟧")', 'bus.connect("a", "b", "channel-2")',
        is_secret=is_made_up),
    row((".login(", "credentials(", "credential("), rf"{SPACE}(?:[\w.]{{1,60}}|{TEXT}),{SPACE}{QUOTED}\s{{0,4}}\)",
        'smtp.login("bob", "⟦t1gerLily⟧")', 'smtp.login("bob", password)',
        words="login credential credentials networkcredential usernamepasswordcredentials basicawscredentials "
        "awsbasiccredentials passwordcredentials plaincredentials",
        is_secret=lambda secret: has_digit_or_sign(secret) and is_no_number(secret)),
    row("db.auth(", rf"{TEXT},{SPACE}{QUOTED}", 'db.auth("bob", "⟦mong0Pass⟧")', 'db.auth("bob", passwordPrompt())'),
    row("{noop}", r"(?P<secret>[^\s\"'<>`,;{}()\\]{3,256})", '<user name="bob" word="{noop}⟦s3cret77⟧"/>',
        '"{noop}${PASSWORD}"'),
)  # fmt: skip
"""Calls of code, of all languages."""


_ARGUMENT = r"[^,()\n]{1,120}"

_PORTS = (*(str(port) for port in range(5430, 5440)), "6432", "6543", "25060", "26257")
"""The ports of PostgreSQL, its poolers and hosts."""

DATABASES: tuple[Row, ...] = (
    row(tuple(f":{port}:" for port in (*_PORTS, "*")),
        r"""[^\s:"'\\/]{1,64}:[^\s:"'\\/]{1,64}:(?P<secret>(?:[^\s"'\\]|\\[:\\]){4,256})""",
        "db.example.org:5432:shop:bob:⟦x7Yz9kP2⟧", "db.example.org:5432:shop:bob:<password>",
        before=r"""(?:\A|[\s"'`]|\\n)[\w.*\[-][\w.*-]{0,127}\]?""", words=" ".join((*_PORTS, "*")),
        is_secret=is_no_number),
    row(
        "identified ",
        r"""(?ix) (?:with[ ][\w"'`]{1,64}[ ])? (?:by|as)[ ]
        (?: (?P<quote>\\{0,3}["']) | (?=[\w$\#]{0,64}[0-9]) (?=[\w$\#]{6,64}(?:;|\s*\Z)) )
        (?P<secret>(?(quote)[^"'\\\n]|[\w$\#]){1,256}) (?(quote)(?P=quote))""",
        "CREATE USER bob IDENTIFIED BY '⟦n0tMine⟧';",
        "The library that is identified by 'name'.",
        before=r"(?i:\b(?:user|role|grant|login)\b)[^\n]{0,160}",
        is_secret=is_no_number,
    ),
    row("set password ", rf"(?i:for)[ ][^=\n;]{{1,80}}=[ ]?(?i:password\()?{QUOTED}",
        "SET PASSWORD FOR 'app'@'%' = '⟦Kestrel-4419⟧'", "SET PASSWORD FOR 'app'@'%' = @word", words="password"),
    row(("pragma key", "pragma rekey"), rf"[ ]?=[ ]?{QUOTED}", "PRAGMA key = '⟦sqlc1pherKey⟧';",
        "PRAGMA key_size = 256;", words="pragma"),
    row("pgp_sym_", rf"(?i:(?:en|de)crypt)\w{{0,8}}\({SPACE}{_ARGUMENT},{SPACE}{QUOTED}",
        "SELECT pgp_sym_decrypt(ssn, '⟦pgpSymKey77⟧') FROM people",
        "SELECT pgp_sym_decrypt(ssn, current_setting('app.key'))",
        words="pgp_sym_encrypt pgp_sym_decrypt pgp_sym_encrypt_bytea pgp_sym_decrypt_bytea"),
    row("crypt(", rf"{SPACE}{QUOTED},{SPACE}(?i:gen_salt|pass)",
        "INSERT INTO accounts VALUES ('bob', crypt('⟦bobsPass77⟧', gen_salt('bf')))",
        "SELECT crypt(entered, password)"),
    row(("aes_encrypt(", "aes_decrypt("), rf"{SPACE}(?:{_ARGUMENT}|\\{{0,3}}'[^'\n]{{0,120}}'),{SPACE}{QUOTED}",
        "SELECT AES_DECRYPT(card, '⟦mysqlKey77⟧')", "SELECT AES_DECRYPT(card, @key)"),
    row(("encryptbypassphrase(", "decryptbypassphrase("), rf"{SPACE}N?{QUOTED}",
        "SELECT ENCRYPTBYPASSPHRASE('⟦mssqlPhrase7⟧', card)", "SELECT ENCRYPTBYPASSPHRASE(@phrase, card)"),
    row("attach database ", rf"[^\n;]{{1,160}}?(?i:\bKEY)[ ]{QUOTED}",
        "ATTACH DATABASE 'a.db' AS a KEY '⟦sqlc1pherKey⟧'", "ATTACH DATABASE 'a.db' AS a", words="attach"),
    row("connect ", r"""[\w.$#]{1,64}/(?P<secret>[^\s@"'/\\;.]{3,128})(?:@|;|[ ]as[ ]sys)""",
        "CONNECT scott/⟦t1gerLily⟧@orcl", "connect src/main2 and src/lib", is_secret=has_digit_or_sign),
)  # fmt: skip
"""Statements of SQL, of all databases."""
