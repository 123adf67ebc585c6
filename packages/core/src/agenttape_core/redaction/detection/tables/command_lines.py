"""Secrets in the lines of commands: an option of a cloud's tool, or a text that is piped into a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenttape_core.redaction.detection.tables import (
    WORD,
    Row,
    has_digit_or_sign,
    is_community,
    is_made_up,
    is_no_number,
    is_said,
    row,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_ARGUMENT = r"""(?!-)[^\s"'\\;|&<>()`]{1,256}"""
_REST = r"[^\n|;&]{0,200}?"
"""Other arguments of the same command."""
_PIPED = (
    r"""(?:echo|printf)[ ](?:-\w{1,2}[ ])?(?:\\{0,3}["']%s(?:\\n)?\\{0,3}["'][ ])?(?P<quote>\\{0,3}["'])?"""
    r"""(?P<secret>(?(quote)[^"'\\\n]{1,256}|[^\s"'\\;|&<>()`$]{3,256}))(?(quote)(?P=quote))[ ]{0,4}\|[ ]{0,4}"""
)
_FIRST = r"""(?:\A|[\n;&|"'`]|\\n)[ \t+$>-]{0,16}"""
"""The text in front of a command."""
_PROMPT = r"(?:\A|[\n;&|(\"'`]|\\n)[ \t$>%#]{0,4}\w{0,32}(?:[ ][\w./-]{1,64}){0,4}[ ]?"
_PRINTED = r"(?:\r?\n|(?:\\r)?\\n)(?P<secret>[^\s\"'\\]{6,256})(?=[ ]{0,4}(?:\s|\\[nrt]|[\"']|\Z))"
"""The text in front of a command that prints a secret, and the line that it prints."""


def _is_of_oracle(secret: str) -> bool:
    return has_digit_or_sign(secret) or secret in ("tiger", "manager")


def _is_given(secret: str) -> bool:
    return not secret.isdigit() and (has_digit_or_sign(secret) or "+" in secret or "=" in secret)


def _is_printed(secret: str) -> bool:
    return is_made_up(secret) or is_said(secret)


def _option(commands: str, option: str, found: str, kept: str, is_secret: Callable[[str], bool] | None = None) -> Row:
    """Return a row for commands, separated by blanks, of which an option is followed by a password."""
    literals = tuple(f"{command} " for command in commands.split())
    return row(literals, rf"(?:{_REST}[ ])?{option}{WORD}", found, kept, is_secret=is_secret)


COMMAND_LINES: tuple[Row, ...] = (
    # -- an option with a password -----------------------------------------------------------------------------
    _option("mysql mysqldump mysqladmin", "-p", "mysql -u bob -p⟦hunter77⟧ shop", "mysql -u bob -p shop", is_no_number),
    _option("zip unzip", "-P[ ]", "zip -P ⟦hunter77⟧ a.zip a.txt", "zip -r a.zip a.txt", is_no_number),
    _option("7z 7za", "-p", "7z a -p⟦hunter77⟧ a.7z a.txt", "7z x a.7z", is_no_number),
    _option("rar unrar", "-h?p", "rar a -hp⟦hunter77⟧ a.rar a.txt", "rar a a.rar a.txt", is_no_number),
    _option("redis-cli valkey-cli", "-a[ ]", "redis-cli -h h -a ⟦hunter77⟧ ping", "redis-cli -h h ping", is_no_number),
    _option("mongo mongosh mongodump mongorestore mongoexport mongoimport cqlsh mosquitto_pub mosquitto_sub",
        "-[pP][ ]", "mongosh -u bob -p ⟦x7Yz9kP2⟧ shop", "mongosh -u bob -p shop", _is_given),
    _option("sqlcmd osql isql bcp ipmitool", "-P[ ]?", "sqlcmd -S h -U sa -P ⟦x7Yz9kP2⟧", "sqlcmd -S h -E", _is_given),
    _option("plink plink.exe pscp pscp.exe psftp putty putty.exe", "-pw[ ]", "plink -pw ⟦x7Yz9kP2⟧ bob@h",
        "plink -batch bob@h", _is_given),
    _option("openssl", "-[kK][ ]", "openssl enc -aes-256-cbc -k ⟦x7Yz9kP2⟧", "openssl enc -k pass", _is_given),
    _option("ldapsearch ldapadd ldapmodify ldapdelete ldappasswd ldapwhoami ldapcompare ldapmodrdn security", "-w[ ]",
        "ldapsearch -x -D cn=bob -w ⟦x7Yz9kP2⟧", "ldapsearch -x -W", _is_given),
    _option("crackmapexec netexec nxc evil-winrm hydra twine supabase", "-p[ ]",
        "evil-winrm -i 10.0.0.1 -u bob -p ⟦x7Yz9kP2⟧", "hydra -l bob -P words.txt ssh://h", _is_given),
    _option("ldappasswd", "-[as][ ]", "ldappasswd -x -s ⟦x7Yz9kP2⟧ uid=bob", "ldappasswd -x -S uid=bob", _is_given),
    _option("mysqladmin", "password[ ]", "mysqladmin -u root password '⟦r00tPass77⟧'", "mysqladmin -u root status"),
    _option("psexec psexec.exe psexec64 psexec64.exe", "-p[ ]", "PsExec.exe \\\\srv1 -u corp\\svc -p ⟦ps3xecPw⟧ cmd",
        "psexec \\\\srv1 -s cmd"),
    _option("snmpwalk snmpget snmpset snmpbulkwalk snmpbulkget snmptable snmptrap", "-[AX][ ]",
        "snmpwalk -v3 -u bob -l authPriv -A ⟦authPass123⟧ -x AES 10.0.0.1", "snmpwalk -v3 -u bob -a SHA 10.0.0.1"),
    _option("snmpwalk snmpget snmpset snmpbulkwalk snmpbulkget snmptable snmptrap", "-c[ ]",
        "snmpget -v2c -c ⟦s3cretComm⟧ 10.0.0.1 sysName.0", "snmpget -v2c -c public 10.0.0.1 sysName.0", is_community),
    _option("ssh-keygen", "-[NP][ ]", 'ssh-keygen -t ed25519 -f id -N "⟦keyPhrase77⟧"',
        'ssh-keygen -t ed25519 -f id -N ""'),
    _option("schtasks", "/rp[ ]", "schtasks /create /tn x /ru bob /rp ⟦t4skPw77⟧", "schtasks /query"),
    _option("pdftk", "(?:user|owner)_pw[ ]", "pdftk a.pdf output b.pdf user_pw ⟦pdfPw77⟧", "pdftk a.pdf output b.pdf"),
    _option("doctl", "-t[ ]", "doctl auth init -t ⟦8f3c9a1d27b7e4c1f9a552b6d80e1f4a⟧", "doctl auth init --context team",
        _is_given),
    # -- other commands -----------------------------------------------------------------------------------------
    row(("az sql ", "az mysql ", "az postgres ", "az vm user ", "az synapse "), rf"{_REST}[ ]-p[ ]{WORD}",
        "az sql server create -n srv -u dba -p ⟦x7Yz9kP2⟧", "az sql server list -g rg", words="az",
        is_secret=_is_given),
    row((" set ", ":set ", "setx "), rf"(?:--?[\w-]{{1,24}}[ ]){{0,3}}(?P<name>[\w.:/-]{{1,96}})[ \t]{{1,8}}{WORD}",
        "pulumi config set --secret dbPassword ⟦x7Yz9kP2⟧", "pulumi config set dbHost x7Yz9kP2",
        before=_FIRST + r"(?:(?:[\w.-]{1,24}[ ]){0,2}[\w.-]{1,24}(?::\w{1,16})?)?", is_secret=has_digit_or_sign,
        words="set setx"),
    row(("ENV ", "ARG "), rf"(?P<name>[\w.-]{{1,96}})[ \t]{{1,8}}{WORD}", "ENV DB_PASSWORD ⟦tundra⟧",
        "ENV DB_HOST tundra", before=_FIRST, exact=True),
    row("password", rf"(?:[ \t]|\s|\\n){{1,8}}{WORD}", "machine h login bob password ⟦tundra-owl⟧",
        "login as bob, password unset", before=r"\blogin[ \t]{1,8}\S{1,64}(?:\s|\\n){1,8}"),
    row(("pass: ", "pass = "), WORD, "user: deploy\npass: ⟦Kestrel-4419⟧", "steps: 3\npass: ubuntu-2204",
        before=r"\b(?i:user(?:name)?|login|account)[ ]?[:=][^\n]{1,80}(?:\n|\\n)[ \t*-]{0,8}",
        is_secret=has_digit_or_sign),
    row((" /pass:", " /password:", " /passwd:", " /pwd:"), WORD, "cmdkey /add:srv1 /user:bob /pass:⟦xY77!kl⟧",
        "cmdkey /add:srv1 /user:bob /pass:%PASSWORD%", words="pass password passwd pwd"),
    row("sshpass -p", rf"[ ]?{WORD}", "sshpass -p ⟦hunter77⟧ ssh bob@h", "sshpass -e ssh bob@h",
        is_secret=is_no_number),
    row(" login", rf"(?:[ ]{_REST})?[ ]-p[ ]{WORD}", "docker login -u bob -p ⟦hunter77⟧ r.example.org",
        "docker login -u bob r.example.org",
        before=r"(?:docker|podman|nerdctl|buildah|skopeo|oras|helm|oc|cf|az|jf)(?:[ ]registry)?",
        words="docker podman nerdctl buildah skopeo oras helm oc cf az jf", is_secret=is_no_number),
    row(("http ", "https ", "xh ", "xhs "),
        rf"""(?:{_REST}[ ])?(?:-a|--auth)[ =]{{1,4}}(?P<quote>\\{{0,3}}["'])?[^\s:"'\\-][^\s:"'\\]{{0,127}}:"""
        r"""(?P<secret>(?(quote)[^"'\\\n]|[^\s"'\\]){1,256})""", "http -a bob:⟦hunter77⟧ GET x.example.org",
        "http GET x.example.org", before=r"""(?:\A|[\s;&|$(`"'])""", is_secret=is_no_number),
    row(("smb", "rpcclient", "winexe", "wbinfo", "net "),
        rf"""[a-z]{{0,8}}(?:[ ]{_REST})?[ ]?-U[ ]?(?P<quote>\\{{0,3}}["'])?[^\s%"'\\]{{1,64}}"""
        r"""(?:\\{1,4}[^\s%"'\\]{1,64})?%(?P<secret>(?(quote)[^"'\\\n]|[^\s"'\\]){3,256})""",
        "smbclient //h/s -U bob%⟦x7Yz9kP2⟧", "smbclient //h/s -U bob",
        words="smbclient smbget smbpasswd smbspool smbcacls smbtree smbmap rpcclient winexe wbinfo net",
        is_secret=_is_given),
    row("lftp ", rf"""(?:{_REST}[ ])?-u[ ](?P<user>\\{{0,3}}["'])?[^\s,"'\\]{{1,64}},(?P<secret>[^\s"'\\]{{3,256}})""",
        "lftp -u bob,⟦x7Yz9kP2⟧ h", "lftp -u bob h", is_secret=_is_given),
    row((" --password-stdin", " --stdin"), "", "echo ⟦hunter77⟧ | docker login -u bob --password-stdin",
        "cat p.txt | docker login -u bob --password-stdin", before=_PIPED + r"[^|\n]{0,120}", words="stdin",
        is_secret=is_no_number),
    row("sudo -s", "", "echo ⟦hunter77⟧ | sudo -S id", "echo hello; sudo -s", before=_PIPED, words="sudo",
        is_secret=is_no_number),
    row("curl", r"""[^\n]{0,400}?\s(?:-u|--user|-U|--proxy-user)[ =]?(?P<quote>\\{0,3}["'])?[^\s:"'\\]{1,128}:"""
        r"""(?P<secret>(?(quote)[^"'\\\n]|[^\s"'\\]){1,256})""", "curl -s -u bob:⟦x7Yz9⟧ https://example.org",
        "curl -u bob https://example.org", is_secret=is_no_number),
    row("curl", r"""[^\n]{0,400}?\s(?:-b|--cookie)[ =]?(?P<quote>\\{0,3}["'])?[\w.-]{1,64}="""
        r"""(?P<secret>[^\s"'\\;]{6,2048})""", 'curl -b "sid=⟦k3x9pz2v7w8qm4nb6cd5⟧" https://x.example.org',
        "curl -b cookies.txt https://x.example.org", is_secret=has_digit_or_sign),
    row("::add-mask::", r"""(?P<secret>[^\s"'\\]{1,256})""", 'echo "::add-mask::⟦Zq7jCIej⟧"',
        'echo "::add-mask::$TOKEN"', is_secret=is_no_number),
    row("net use ", r"""(?:[A-Za-z*]:?[ ])?["']?\\{2,8}[^\s"']{1,200}["']?[ ](?:/user:[^\s]{1,128}[ ])?(?![/*])"""
        r"""(?P<secret>[^\s"'/]{3,256})""", "net use Z: \\\\srv1\\share ⟦w1nShare⟧ /user:bob",
        "net use Z: \\\\srv1\\share /persistent:yes", words="net", is_secret=is_no_number),
    row("net user ", rf"""[\w.-]{{1,64}}[ ](?![/*]){WORD}["']?[ ]/(?:add|domain|y)\b""",
        "net user bob ⟦W1nterIsHere⟧ /add", "net user bob /delete", words="net"),
    row("securestring ",
        r"""[ ]{0,3}(?:-string[ ]{1,4})?(?P<quote>\\{0,3}["'])(?P<secret>[^"'\\\n$]{3,256})(?P=quote)""",
        'ConvertTo-SecureString "⟦w1nPass⟧" -AsPlainText -Force', "ConvertTo-SecureString $text -AsPlainText",
        words="securestring", is_secret=is_no_number),
    row("chpasswd", "", "echo 'root:⟦Ch4ng3dIt⟧' | chpasswd", "cat users | chpasswd",
        before=r"""(?:echo|printf)[ ](?:-\w{1,2}[ ])?\\{0,3}["']?[\w.$-]{1,32}:(?P<secret>[^\s"'\\|]{3,256})"""
        r"""\\{0,3}["']?[ ]?\|[ ]?(?:sudo[ ])?"""),
    row("chpasswd", r"""[ ]{0,2}<<<[ ]{0,2}(?:\\{0,3}["'])?[\w.$-]{1,32}:(?P<secret>[^\s"'\\|]{3,256})""",
        'chpasswd <<< "root:⟦Ch4ng3dIt⟧"', 'chpasswd <<< "$line"'),
    row(("gh secret set ", "secrets versions add ", "secret put ", "docker secret create ", "luksopen ", "luksformat "),
        "", 'echo -n "⟦s3cr3tText⟧" | gcloud secrets versions add db --data-file=-',
        "cat key.txt | gcloud secrets versions add db --data-file=-", words="echo printf",
        before=_PIPED + r"(?:[\w.-]{1,24}[ ]){0,3}"),
    row("ssm put-parameter ",
        rf"(?=[^\n]{{0,300}}?(?i:securestring|pass|secret|token|key))[^\n]{{0,300}}?--value[ =]{WORD}",
        "aws ssm put-parameter --name /prod/db/password --type SecureString --value ⟦ssmPass77⟧",
        "aws ssm put-parameter --name /prod/region --type String --value eu-west-1"),
    row("keyvault secret set ", rf"[^\n]{{0,300}}?--value[ =]{WORD}",
        "az keyvault secret set --vault-name v --name db --value ⟦kvPass77⟧",
        "az keyvault secret set --vault-name v --name db --file db.txt", words="keyvault"),
    row("gh secret set ", rf"[^\n]{{0,200}}?(?:--body|-b)[ =]{WORD}", 'gh secret set DEPLOY --body "⟦x7Yz9k2⟧"',
        "gh secret set DEPLOY < key.txt", words="gh"),
    row("wandb login ", r"(?:--relogin[ ])?(?P<secret>(?:local-)?[0-9a-f]{40})\b",
        "wandb login ⟦8f3c9a1d27b7e4c1f9a552b6d80e1f4a8f3c9a1d⟧", "wandb login --relogin"),
    row("etcdctl ", rf"""{_REST}--user[ =]["']?[\w.-]{{1,64}}:(?P<secret>[^\s"'\\]{{3,256}})""",
        "etcdctl --user root:⟦etcdPw77⟧ get /", "etcdctl --user root get /"),
    row("parameterkey=", r"""\w{0,60}(?i:pass|secret|token|key)\w{0,20},ParameterValue=(?P<secret>[^\s"'\\,]{3,256})""",
        "ParameterKey=DbPassword,ParameterValue=⟦cfnPass77⟧", "ParameterKey=InstanceType,ParameterValue=t3.micro"),
    row("rabbitmqctl ", rf"(?:add_user|change_password|authenticate_user)[ ][\w.-]{{1,64}}[ ]{WORD}",
        "rabbitmqctl add_user bob ⟦r4bbitPw⟧", "rabbitmqctl list_users"),
    row("wpa_passphrase ", rf"""(?:"[^"\n]{{1,64}}"|[\w.-]{{1,64}})[ ]{WORD}""", "wpa_passphrase HomeNet ⟦w1fiHome77⟧",
        "wpa_passphrase HomeNet"),
    row("rclone obscure ", WORD, "rclone obscure ⟦rcl0nePw⟧", "rclone obscure -"),
    row("encrypt_string ", r"""[^\n'"]{0,80}(?P<quote>["'])(?P<secret>[^"'\n]{3,256})(?P=quote)""",
        "ansible-vault encrypt_string --name db '⟦4nsiblePw⟧'", "ansible-vault encrypt_string --stdin-name db"),
    row(("-passin pass:", "-passout pass:", "-pass pass:"), r"""(?P<secret>[^\s"'\\]{3,256})""",
        "openssl rsa -in k.pem -passin pass:⟦rsaPw77⟧", "openssl rsa -in k.pem -passin pass:$PW"),
    row(("sqlplus ", "expdp ", "impdp ", "sqlldr ", "rman target "),
        r"""(?:-\w{1,8}[ ]){0,3}["']?[\w.$#-]{1,64}/(?P<secret>[^\s@"'/\\;]{3,128})(?=[@\s"';]|\Z)""",
        "expdp system/⟦Manag3r9⟧ schemas=hr", "sqlplus scripts/load.sql",
        is_secret=lambda value: _is_of_oracle(value) and not value.endswith(".sql")),
    row("sqlplus ", r"""(?:-\w{1,8}[ ]){0,3}[\w.$#-]{1,64}/(?P<secret>[^\s@"'/\\]{3,128})@""",
        "sqlplus scott/⟦tigerlily⟧@//db:1521/XE", "sqlplus scott@//db:1521/XE", is_secret=is_no_number),
    row("htpasswd -", r"(?<=htpasswd -)(?=(?:[\w-]{1,16}[ ]-){0,4}?[A-Za-z0-9]{0,8}b)"
        r"(?:(?=(?:[\w-]{1,16}[ ]-){0,4}?[A-Za-z0-9]{0,8}n)|(?P<file>))"
        rf"[\w-]{{1,16}}(?:[ ]\d{{1,2}}(?=[ ]))?(?:[ ]-[\w-]{{1,16}}(?:[ ]\d{{1,2}}(?=[ ]))?){{0,4}}+"
        rf"(?(file)[ ]{_ARGUMENT})[ ]{_ARGUMENT}[ ]{{1,4}}{WORD}", "htpasswd -b .htpasswd bob ⟦ht4ccess⟧",
        "htpasswd -c .htpasswd bob"),
    row("alias set ",
        rf"""{_ARGUMENT}[ ]\\{{0,3}}["']?https?://{_ARGUMENT}\\{{0,3}}["']?[ ]{_ARGUMENT}[ ]{{1,4}}{WORD}""",
        "mc alias set minio https://s3.example.org admin ⟦m1nioPw⟧", "mc alias set minio https://s3.example.org",
        words="alias"),
    row("<<<", rf"[ ]?{WORD}", "sudo -S id <<< ⟦hunter77⟧", "cat <<< hunter77",
        before=r"\b(?:sudo[ ]-S|kinit|passwd|cryptsetup|gpg|login|secret[ ](?:put|set))\b[^\n<]{0,160}",
        words="sudo kinit passwd cryptsetup gpg login secret", is_secret=_is_given),
    row(("op read ", "op item get ", "pass show ", "bw get password ", "secret-tool lookup ",
         "doppler secrets get ", "secretsmanager get-secret-value ", "secrets versions access ",
         "keyvault secret show ", "vault kv get -field=password ",
         "security find-generic-password ", "kubectl get secret "),
        r"[^\n\\]{1,200}" + _PRINTED,
        '$ op read "op://Private/db/password"\n⟦x7Yz9kP2⟧\n$', "$ pass show -c web/bob\nCopied web/bob to clipboard.",
        before=_PROMPT,
        words="op pass gopass bw lookup doppler secretsmanager versions keyvault vault security kubectl",
        is_secret=_is_printed),
    row("output -raw ", r"(?P<name>[\w.-]{1,96})[ ]{0,4}" + _PRINTED, "$ terraform output -raw db_password\n⟦x7Yz9kP2⟧",
        "$ terraform output -raw vpc_id\nvpc-0a1b2c3d4e", words="terraform tofu", before=_PROMPT,
        is_secret=_is_printed),
    row("kinit", "", "echo ⟦hunter77⟧ | kinit bob", "kinit bob", before=_PIPED, is_secret=is_no_number),
    row(("secretsdump", "wmiexec", "smbexec", "atexec", "dcomexec", "getuserspns"),
        rf"(?:\.py)?[ ](?:{_REST}[ ])?[\w.-]{{1,64}}/[\w.-]{{1,64}}:(?P<secret>[^\s@]{{3,128}})@",
        "secretsdump.py corp/bob:⟦x7Yz9kP2⟧@10.0.0.1", "secretsdump.py corp/bob@10.0.0.1"),
    row(("vault login ", "poetry config pypi-token.", ":_authtoken "), rf"(?:(?<=token\.)[\w-]{{1,32}}[ ])?{WORD}",
        "vault login ⟦x7Yz9kP2⟧", "vault login -method=userpass", is_secret=_is_given),
    row(("fly secrets set ", "flyctl secrets set "), rf"[A-Z]\w{{0,64}}={WORD}", "fly secrets set STRIPE=⟦x7Yz9kP2⟧",
        "fly secrets set STRIPE=$STRIPE", is_secret=has_digit_or_sign),
    row("freerdp", rf"\d?(?:\.exe)?[ ](?:{_REST}[ ])?/g?p:{WORD}", "xfreerdp /v:srv1 /u:bob /p:⟦rdpPw77⟧",
        "xfreerdp /v:srv1 /u:bob", words="freerdp xfreerdp wlfreerdp sdl_freerdp xfreerdp3 wlfreerdp3"),
)  # fmt: skip
"""Commands and their arguments."""
