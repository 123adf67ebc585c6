"""Secrets in surroundings that engineers and agents write: prose, shells, SQL, calls of tools, configurations."""

from __future__ import annotations

import json

import pytest

from agenttape_core.redaction import Redactor

SECRET = "Zq7jCIejlCJr"

FOUND = [
    "Here you go.\nAPI key: {}",
    "Hello,\n\nAccess token: {}\nBye",
    json.dumps("Hello,\nAPI key: {}\n"),
    "password -> {}",
    "password \u2192 {}",
    "Das Passwort lautet {}",
    "mon mot de passe est {}",
    "el token es {}",
    '<parameter name="password">{}</parameter>',
    '<string name="api_key">{}</string>',
    'variable "db_password" {{\n  type = string\n  default = "{}"\n}}',
    "define('DB_PASSWORD', '{}');",
    '{{"auths": {{"r.example": {{"identitytoken": "{}"}}}}}}',
    "CREATE USER bob IDENTIFIED WITH mysql_native_password BY '{}';",
    "CREATE USER bob IDENTIFIED BY {};",
    "sqlplus system/{}@//db:1521/XE",
    "jdbc:oracle:thin:scott/{}@//db:1521/XE",
    'echo "::add-mask::{}"',
    "Authorization: SSWS 00{0}{0}",
    "Authorization: DeepL-Auth-Key {0}{0}:fx",
    "ENV PASSWORD {}",
    "INSERT INTO users (name, password, age) VALUES ('bob', '{}', 3)",
    "insert into \"users\" (\"password\", \"name\") values ('{}', 'O''Brien');",
    "INSERT IGNORE INTO `users`\n  (`id`, `api_token`)\nVALUES\n  (1, '{}')",
    "REPLACE INTO t (a, pw) VALUES (now(), '{}')",
    "INSERT INTO users (name, password) VALUES ('bob', crypt('{}', gen_salt('bf')))",
    json.dumps({"sql": 'INSERT INTO "users" ("name", "password")\nVALUES ("bob", "{}")'}).replace("{", "{{", 1)[:-1]
    + "}}",
    "COPY public.users (id, name, password) FROM stdin;\n7\tann\t\\N\n8\tbob\t{}\n\\.\n",
    "CREATE LOGIN bob WITH PASSWORD = N'{}'",
    "db.example.com:5432:shop:bob:{}",
    "# a password file\nlocalhost:5433:*:bob:{}\n",
    "*:*:*:bob:{}",
    "http -a bob:{} https://example.com/x",
    "http --json --auth 'bob:{}' POST example.com",
    "redis-cli -h cache -a {} ping",
    "requirepass {}",
    "az login --service-principal -u 1 -p {} --tenant t",
    "unzip -P {} a.zip",
    "7z x -p{} a.7z",
    'smtp.login("bob@example.com", "{}")',
    "Credentials: bob / {}",
    "credentials: bob:{}",
    "Your login details: bob / {}.",
    "SECRET_KEY_BASE={}",
    'network={{\n  ssid="home"\n  psk="{}"\n}}',
    'var dbPassword string = "{}"',
    "La clave es {}",
    "tu contrase\u00f1a es {}",
    "Mein Kennwort ist {}",
    "A senha \u00e9 {}",
    "palavra passe: {}",
    "SSWS 00{0}{0}{0}",
    "Bob's password for the portal is {}",
    "password for bob: {}",
    'OpenAIClient.builder().apiKey("{}").build()',
    'user.set_password("{}")',
    "client.withSecretKey( '{}' )",
    'client.setDatabasePassword("{}")',
    'client.setKeystorePassword("{}")',
    'client.setSmtpPassword("{}")',
    'builder.secretKey("{}")',
    'builder.privateKey("{}")',
    'builder.apiSecret("{}")',
    'builder.encryptionKey("{}")',
    'builder.pwd("{}")',
    'encrypt_password("{}")',
    'request.addBasicAuth("bob", "{}")',
    'request.setHttpBasicAuth("bob", "{}")',
    'client.useBearerAuth("{}")',
    'client.basic_auth(user, Some("{}"))',
    "proxy_auth=('bob', '{}')",
    "client.http_auth = HTTPDigestAuth('bob', '{}')",
    '<input type = "password" value="{}">',
    '<input/type="password"/value={}>',
    f'<input type="password" class="{"row " * 175}" value="{{}}">',
    '"<input\\n\\ttype=\\"password\\"\\n\\tvalue=\\"{}\\">"',
    '<input type="password" title="it\'s value = x" value="{}">',
    '<input name="api_key" placeholder="value=1" value="{}">',
    'INFO: AuthLDAPBindPassword "{}"',
    '[nginx] AuthLDAPBindPassword "{}"',
    '2026-11-30T12:00:00Z AuthLDAPBindPassword "{}"',
    "user bob pwd {}",
    "username bob passphrase {}",
    "connect bob db_password {}",
    "setup.exe /db-password:{}",
    "setup.exe /AdminPassword:{}",
    "$ terraform output -raw db_password\n{}\n$",
    "az vm user update -u bob -p {} -n vm1",
    "the password on the server is still {}",
    "the password at work: {}",
    "The passphrase was reset to {}",
    "the password changed to {}",
    "Password:\n{}\n",
    "rotated the access key to `{}`",
]


@pytest.mark.parametrize("text", FOUND)
def test_found(redactor: Redactor, text: str) -> None:
    """The secret is replaced and nothing around it, twice is as once, and it comes back."""
    text = text.format(SECRET)
    redacted = redactor.text(text)
    assert SECRET not in redacted
    assert redacted.partition("[REDACTED:")[0] == text[: len(redacted.partition("[REDACTED:")[0])]
    assert Redactor(redactor.key).text(redacted) == redacted
    assert redactor.rehydrate(redacted) == text


@pytest.mark.parametrize("text", FOUND)
def test_found_in_pieces(redactor: Redactor, text: str) -> None:
    """It is found wherever a stream cuts it."""
    text = text.format(SECRET)
    for at in range(text.index(SECRET) + 1, text.index(SECRET) + len(SECRET)):
        chunks = redactor.chunks([{"content": text[:at]}, {"content": text[at:]}])
        assert SECRET not in "".join(str(chunk["content"]) for chunk in chunks if isinstance(chunk, dict))


@pytest.mark.parametrize(
    "text",
    [
        "setx DB_PASSWORD tundra",
        "npm config set PASSWORD tundra",
        "env DB_PASSWORD tundra",
        "RUN x\narg DB_PASSWORD tundra",
        "http_auth=('bob', 'tundra')",
        '<input type = "password" value="tundra">',
        'password: "open tundra password"',
        'password: "reset tundra password"',
        "requirepass \u043ftundra \u0440 9",
        'password: "open the tundra passphrase"',
    ],
)
def test_words_are_found(redactor: Redactor, text: str) -> None:
    """A secret may be a word, or some, where its surroundings leave no doubt."""
    redacted = redactor.text(text)
    assert "tundra" not in redacted
    assert redactor.rehydrate(redacted) == text


def test_codes_in_prose(redactor: Redactor) -> None:
    """A short number is a secret where prose says which one it is."""
    for text in ("Your verification code is 482913.", "OTP is 48291", "the PIN is 1234 for now"):
        redacted = redactor.text(text)
        assert redacted != text
        assert Redactor(redactor.key).text(redacted) == redacted
        assert redactor.rehydrate(redacted) == text


@pytest.mark.parametrize(
    "text",
    [
        "API_KEY=<your key>",
        "password -> str",
        "token \u2192 Token2",
        "`userPassword2` \u2192 `user`, `password`",
        "The status code is 2004.",
        "led pin is 1350",
        "The user was identified by ISO27001 and by hand.",
        "identified as 44 years old; married",
        "Authorization: required for members",
        'variable "db_password" {\n  type = string\n}',
        '<option value="key">x1y2z3</option>',
        "Das Passwort ist falsch, el token es nuevo.",
        "the primary\nkey: abc123def456",
        "password value and token secret are words, key words.",
        "INSERT INTO users (name, password) VALUES (%s, %s)",
        "INSERT INTO users (name, password) VALUES ($1, :password)",
        "INSERT INTO users (name, token_count) VALUES ('bob', '42')",
        "INSERT INTO users (name, password) VALUES ('bob', NULL)",
        "insert into the form (name, password) values that you know",
        "COPY users (name, password) FROM stdin;",
        "INSERT INTO vocabulary (token, count) VALUES ('the', 3)",
        "the cookie of the day: oat5meal",
        "login: success / failure2",
        "localhost:5432:shop:bob",
        "10:20:30:400:500 a:b:c:d:e1 std::vector:x:y2 arn:aws:s3:*:bucket1",
        "src/main.py:5432:5: note:x:y1",
        "http -a flag:pass means auth",
        "ls -a dir:x1y2z3",
        "login: 2024 / 2025, logins: Bob / Alice",
        "Credentials: OAuth2 / SAML2",
        "credentials: prod/cluster1",
        'page.login("bob", "admin")',
        "psk: false",
        "el \u00e9xito es clave: paciencia; das Kennwort ist falsch",
        "The password for the portal is required, the key to success is patience.",
        "a token of thanks: nothing more",
        'get_password("user42x9") and verify_token("abc1defg")',
        'page.cookie("session1a2") and field.password("Enter_password")',
        'findByKey("k1a2b3c4") and t.key("a1b2c3d4")',
        '<input type="password" onchange="value = this.value">',
        '<input type="password" title="the value = x" placeholder="value=1">',
        "terraform output -raw vpc_id\nvpc-0a1b2c3d4e",
        "az vm image list -p Canonical1 --all",
        "Password:\nroot@box1:~# ls",
        "Password:\nroot@box1:~#",
        '"Password:\\nroot@box1:~#"',
        'updated the foreign key to "orders_2024", changed the sort key to `created-2024`',
        'I changed the token to `user_token_4419` and set the secret to "db-creds-2024"',
        "the password is still 12-char minimum, the token on the bus is now 24-hour",
        "The password changed to 12-char minimum; the passphrase was reset to 12-char minimum",
        "the secret at rest: AES-256, the secret on disk is AES-256",
        'password: "Forgot your password?"',
        'password: "Please enter your new password."',
    ],
)
def test_left_alone(redactor: Redactor, text: str) -> None:
    """Placeholders, types, states and numbers that are no secrets stay."""
    assert redactor.text(text) is text
