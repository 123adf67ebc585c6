"""Secrets in SQL: keys of encrypted databases, passwords of users, and arguments of functions."""

from __future__ import annotations

from agenttape_core.redaction.detection.tables.row import QUOTED, SPACE, Row, has_digit_or_sign, is_no_number, row

_PLAIN = r"[^,()\n]{1,120}"

_PORTS = (*(str(port) for port in range(5430, 5440)), "6432", "6543", "25060", "26257")
"""The ports of PostgreSQL, its poolers and hosts."""

DATABASES: tuple[Row, ...] = (
    row(
        tuple(f":{port}:" for port in (*_PORTS, "*")),
        r"""[^\s:"'\\/]{1,64}:[^\s:"'\\/]{1,64}:(?P<secret>(?:[^\s"'\\]|\\[:\\]){4,256})""",
        "db.example.org:5432:shop:bob:⟦x7Yz9kP2⟧",
        "db.example.org:5432:shop:bob:<password>",
        before=r"""(?:\A|[\s"'`]|\\n)[\w.*\[-][\w.*-]{0,127}\]?""",
        words=" ".join((*_PORTS, "*")),
        is_secret=is_no_number,
    ),
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
    row(
        ("pragma key", "pragma rekey"),
        rf"[ ]?=[ ]?{QUOTED}",
        "PRAGMA key = '⟦sqlc1pherKey⟧';",
        "PRAGMA key_size = 256;",
        words="pragma",
    ),
    row(
        "pgp_sym_",
        rf"(?i:(?:en|de)crypt)\w{{0,8}}\({SPACE}{_PLAIN},{SPACE}{QUOTED}",
        "SELECT pgp_sym_decrypt(ssn, '⟦pgpSymKey77⟧') FROM people",
        "SELECT pgp_sym_decrypt(ssn, current_setting('app.key'))",
        words="pgp_sym_encrypt pgp_sym_decrypt pgp_sym_encrypt_bytea pgp_sym_decrypt_bytea",
    ),
    row(
        "crypt(",
        rf"{SPACE}{QUOTED},{SPACE}(?i:gen_salt|pass)",
        "INSERT INTO accounts VALUES ('bob', crypt('⟦bobsPass77⟧', gen_salt('bf')))",
        "SELECT crypt(entered, password)",
    ),
    row(
        ("aes_encrypt(", "aes_decrypt("),
        rf"{SPACE}(?:{_PLAIN}|\\{{0,3}}'[^'\n]{{0,120}}'),{SPACE}{QUOTED}",
        "SELECT AES_DECRYPT(card, '⟦mysqlKey77⟧')",
        "SELECT AES_DECRYPT(card, @key)",
    ),
    row(
        ("encryptbypassphrase(", "decryptbypassphrase("),
        rf"{SPACE}N?{QUOTED}",
        "SELECT ENCRYPTBYPASSPHRASE('⟦mssqlPhrase7⟧', card)",
        "SELECT ENCRYPTBYPASSPHRASE(@phrase, card)",
    ),
    row(
        "attach database ",
        rf"[^\n;]{{1,160}}?(?i:\bKEY)[ ]{QUOTED}",
        "ATTACH DATABASE 'a.db' AS a KEY '⟦sqlc1pherKey⟧'",
        "ATTACH DATABASE 'a.db' AS a",
        words="attach",
    ),
    row(
        "connect ",
        r"""[\w.$#]{1,64}/(?P<secret>[^\s@"'/\\;.]{3,128})(?:@|;|[ ]as[ ]sys)""",
        "CONNECT scott/⟦t1gerLily⟧@orcl",
        "connect src/main2 and src/lib",
        is_secret=has_digit_or_sign,
    ),
)
"""Statements of SQL, of all databases."""
