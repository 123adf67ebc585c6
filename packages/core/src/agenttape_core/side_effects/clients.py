"""Clients that can't be watched: compiled code does their work outside, and raises no events."""

from __future__ import annotations

from collections.abc import Mapping

from agenttape_core.lazy_patterns import Lazy

_SOCKETS = "its connections are made by C code"
_FILES = "its files are written by compiled code"
_PROCESSES = "it hands work to processes"

CLIENTS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("psycopg", "psycopg2", "psycopg_c", "psycopg_binary", "psycopg_pool", "pq", "pgdb", "MySQLdb"),
            *("mysql.connector", "mariadb", "pymssql", "pyodbc", "oracledb", "cx_Oracle", "ibm_db", "fdb"),
            *("snowflake.connector", "cassandra", "acsylla", "aerospike", "couchbase", "taos", "turbodbc"),
            *("adbc_driver_manager", "confluent_kafka", "pulsar", "zmq", "grpc", "pycurl", "curl_cffi", "primp"),
            *("rnet", "libtorrent", "ssh2", "pylibssh", "ldap", "nng", "pynng", "ray"),
            *("connectorx", "valkey_glide", "glide", "redis_rs", "opendal", "obstore", "deltalake", "lancedb", "lance"),
            *("qdrant_edge", "pymilvus", "weaviate", "chromadb", "infinity_sdk", "OpenSSL"),
        ),
        _SOCKETS,
    ),
    **dict.fromkeys(
        (
            *("duckdb", "polars", "pyarrow", "h5py", "tables", "netCDF4", "lmdb", "plyvel", "rocksdict", "rocksdb"),
            *("apsw", "_dbm", "_gdbm", "leveldb", "kuzu", "tantivy", "faiss", "hnswlib", "usearch"),
            *("cv2", "soundfile", "safetensors", "torch", "tensorflow", "fitz", "pymupdf", "pikepdf", "av"),
            *("osgeo", "fiona", "rasterio", "pyogrio", "vtk", "ROOT", "pysqlite3", "sqlcipher3", "libsql"),
        ),
        _FILES,
    ),
    **dict.fromkeys(("cffi", "ctypes", "_cffi_backend"), "it calls C code"),
    **dict.fromkeys(
        (
            *("concurrent.futures.process", "multiprocessing", "loky", "joblib", "billiard", "posix_ipc", "sysv_ipc"),
            "playwright",
        ),
        _PROCESSES,
    ),
}
"""Packages and modules that reach outside by code that raises no events, and the reason.

Not among them: what does it in Python, however much else of it is compiled (`asyncpg`, `grpclib`, `pysnmp`,
`smbprotocol`, `onnx`).
"""

_TABLES = r"(read|scan|write|sink)_(?!text$|bytes$)\w+"

BY_NAME: Mapping[str, Lazy[str]] = {
    name: Lazy(pattern)
    for name, pattern in {
        "polars": _TABLES,
        "pyarrow": _TABLES
        + r"|fs|flight|dataset|memory_map|create_memory_map|new_file|new_stream|open_\w+|(in|out)put_stream"
        + r"|OSFile|\w+Writer|\w*FileSystem|\w*File",
        "torch": r"save|distributed|multiprocessing|rpc|onnx|from_file|package|PackageExporter|load_library",
        "safetensors": r"save_\w+|serialize_file",
        "faiss": r"write_\w+|OnDisk\w*|\w*IOWriter",
        "hnswlib": r"save_index",
        "usearch": r"save",
        "cv2": r"imwrite\w*|Video\w+|FileStorage|imshow|namedWindow|write|save",
        "soundfile": r"write|SoundFile",
        **dict.fromkeys(("fitz", "pymupdf", "pikepdf"), r"\w*[sS]ave\w*|DocumentWriter|write_\w+"),
        "joblib": r"Parallel|parallel\w*",
        "ctypes": r"\w+DLL|\w+dll|pythonapi|\w*FUNCTYPE|LoadLibrary",
        **dict.fromkeys(("multiprocessing", "billiard"), r"shared_memory|SharedMemory|ShareableList"),
        "concurrent.futures.process": r"(?!)",  # no name: to start one is seen
    }.items()
}
"""Clients that compute in this process by default: they reach outside only where code names one of these.

Reading counts if a package reads from networks directly.
"""

BY_OBJECT = frozenset({"multiprocessing", "billiard", "concurrent.futures.process", "ctypes"})
"""Clients whose objects always reach outside: a pool, a queue, a library. Their modules and classes are named for
much else, and to start a process, or to load a library, is seen."""

HARMLESS = frozenset({"multiprocessing.context", "multiprocessing.dummy", "multiprocessing.process"})
"""Modules of these whose objects do not."""

THREADS = "multiprocessing.pool.ThreadPool"  # the class of pools there that hand work to threads

_DRIVERS = frozenset(
    {
        *("psycopg", "psycopg2", "MySQLdb", "mysql.connector", "mariadb", "pymssql", "pyodbc", "oracledb", "cx_Oracle"),
        *("ibm_db", "duckdb", "sqlite3", "pysqlite3", "apsw", "snowflake.connector"),
    }
)
GO_BETWEENS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("sqlalchemy", "sqlmodel", "django.db", "peewee", "pony", "tortoise", "databases"), _DRIVERS),
    **dict.fromkeys(("google.cloud", "qdrant_client", "etcd3", "kubernetes_asyncio"), frozenset({"grpc"})),
    **dict.fromkeys(("dbm", "shelve"), frozenset({"_dbm", "_gdbm", "sqlite3"})),
}
"""Packages that reach outside through another one, if it is loaded."""

DATABASE = "sqlite3"  # seen when it opens a database, and not when it uses one that was open

LOOPS = ("uvloop", "winloop", "rloop")  # event loops whose connections are made by C code
