"""Widely used packages, and a first use of each: whatever makes them look up what a session exchanges.

Each is called within a session that is the first to import the package, and again after it. It asserts what must hold.
It gets the time, which is drawn before the import.
"""

import asyncio
import io
import tempfile
import time
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

USES: dict[str, tuple[str, Callable[[Any, datetime], Any]]] = {
    "anthropic": ("anthropic", lambda it, now: it.Anthropic(api_key="k").messages),
    "apscheduler": (
        "apscheduler.triggers.interval",
        lambda it, now: it.IntervalTrigger(seconds=5, timezone=UTC).get_next_fire_time(now, now) > now,
    ),
    "arrow": ("arrow", lambda it, now: abs(it.utcnow().datetime - datetime.now(UTC)).seconds < 5),
    "asyncpg": ("asyncpg", lambda it, now: it.Range(1, 2).lower == 1),
    "bcrypt": ("bcrypt", lambda it, now: it.checkpw(b"x", it.hashpw(b"x", it.gensalt(4)))),
    "beautifulsoup4": ("bs4", lambda it, now: it.BeautifulSoup("<b>x</b>", "html.parser").b.text == "x"),
    "croniter": ("croniter", lambda it, now: it.croniter("0 0 * * *", now).get_next(datetime) > now),
    "dask": ("dask", lambda it, now: it.delayed(sum)([1, 2]).compute(scheduler="synchronous") == 3),
    "dateparser": ("dateparser", lambda it, now: it.parse("2 hours ago") < datetime.now()),
    "duckdb": ("duckdb", lambda it, now: it.execute("select ?::timestamptz", [now]).fetchone()[0] == now),
    "jinja2": ("jinja2", lambda it, now: it.Template("{{ [1, 2] | random }}").render() in "12"),
    "lxml": ("lxml.etree", lambda it, now: it.fromstring("<a><b/></a>")[0].tag == "b"),
    "networkx": ("networkx", lambda it, now: it.gnp_random_graph(5, 1).number_of_edges() == 10),
    "orjson": ("orjson", lambda it, now: it.loads(it.dumps([now, now.date(), uuid.uuid4()]))),
    "ormsgpack": ("ormsgpack", lambda it, now: it.unpackb(it.packb(now))),
    "pymongo": ("bson", lambda it, now: it.decode(it.encode({"t": now, "i": it.ObjectId()}))["t"].year == now.year),
    "psycopg": ("psycopg.adapt", lambda it, now: it.Transformer().get_dumper(now, it.PyFormat.AUTO).dump(now)),
    "redis": ("redis", lambda it, now: it.Redis().connection_pool),
    "requests": (
        "requests",
        lambda it, now: it.Request("GET", "http://x", params={"a": 1}).prepare().url == "http://x/?a=1",
    ),
    "shapely": ("shapely", lambda it, now: it.Point(0, 0).buffer(1).area > 3),
    "simplejson": ("simplejson", lambda it, now: it.loads(it.dumps({"a": 1})) == {"a": 1}),
    "spacy": ("spacy", lambda it, now: [t.text for t in it.blank("en")("hello world.")] == ["hello", "world", "."]),
    "sympy": ("sympy", lambda it, now: it.integrate("x", ("x", 0, 2)) == 2),
    "tiktoken": (
        "tiktoken",
        lambda it, now: it.Encoding("x", pat_str=".", mergeable_ranks={b"a": 0}, special_tokens={}).encode("aa"),
    ),
    "ujson": ("ujson", lambda it, now: it.loads(it.dumps([1])) == [1]),
}
"""Distributions of which one expression is enough: the module to import, and what must be true of it."""


def _aiohttp(now: datetime) -> None:
    import aiohttp

    async def run():
        async with aiohttp.ClientSession() as s:
            return s.closed

    assert asyncio.run(run()) is False


def _attrs(now: datetime) -> None:
    import attrs

    @attrs.define
    class A:
        t: datetime = attrs.field(factory=datetime.now)

    assert isinstance(A().t, datetime)


def _beartype(now: datetime) -> None:
    from beartype import beartype

    @beartype
    def f(t: datetime) -> datetime:
        return t

    assert f(now) is now


def _boto3(now: datetime) -> None:
    import boto3

    client = boto3.client("s3", region_name="eu-west-1", aws_access_key_id="k", aws_secret_access_key="s")
    url = client.generate_presigned_url("get_object", Params={"Bucket": "b", "Key": "k"})
    assert "Signature=" in url


def _cattrs(now: datetime) -> None:
    import attrs
    from cattrs.preconf.json import make_converter

    @attrs.define
    class A:
        t: datetime

    c = make_converter()
    assert c.structure(c.unstructure(A(now)), A) == A(now)


def _cryptography(now: datetime) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    n = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "x")])
    c = (
        x509.CertificateBuilder()
        .subject_name(n)
        .issuer_name(n)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(1))
        .sign(key, hashes.SHA256())
    )
    assert c.not_valid_after_utc > c.not_valid_before_utc


def _dataclasses_json(now: datetime) -> None:
    from dataclasses import dataclass

    from dataclasses_json import dataclass_json

    @dataclass_json
    @dataclass
    class A:
        t: datetime

    assert A.from_json(A(now).to_json()).t == now


def _faiss_cpu(now: datetime) -> None:
    import faiss
    import numpy

    i = faiss.IndexFlatL2(2)
    i.add(numpy.ones((1, 2), "float32"))
    assert i.ntotal == 1


def _fastapi(now: datetime) -> None:
    from fastapi import FastAPI

    app = FastAPI()

    @app.get("/")
    def root(t: datetime, d: date) -> datetime:
        return t

    assert app.openapi()["paths"]


def _freezegun(now: datetime) -> None:
    import freezegun

    with freezegun.freeze_time("2020-01-02"):
        assert date.today() == date(2020, 1, 2)
        assert time.gmtime().tm_year == 2020
    assert date.today().year > 2020


def _grpcio(now: datetime) -> None:
    import grpc

    grpc.insecure_channel("localhost:1").close()


def _h5py(now: datetime) -> None:
    import h5py

    with h5py.File(io.BytesIO(), "w") as f:
        f["x"] = [1, 2]
        assert f["x"][1] == 2


def _httpx(now: datetime) -> None:
    import httpx

    assert httpx.Client(transport=httpx.MockTransport(lambda r: httpx.Response(204))).get("http://x").status_code == 204


def _icalendar(now: datetime) -> None:
    import icalendar

    e = icalendar.Event()
    e.add("dtstart", now)
    assert b"DTSTART" in e.to_ical()


def _lightgbm(now: datetime) -> None:
    import lightgbm
    import numpy

    m = lightgbm.LGBMRegressor(n_estimators=2, verbose=-1, n_jobs=1)
    m.fit(numpy.arange(60).reshape(-1, 1), numpy.arange(60))


def _marshmallow(now: datetime) -> None:
    import marshmallow as m

    class S(m.Schema):
        t = m.fields.DateTime()

    assert S().load(S().dump({"t": now}))["t"] == now
    assert m.Schema.from_dict({"d": m.fields.Date()})()


def _matplotlib(now: datetime) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import dates, pyplot

    pyplot.plot([now, now + timedelta(1)], [1, 2])
    pyplot.gcf().canvas.draw()
    pyplot.close("all")
    assert dates.num2date(dates.date2num(now)).date() == now.date()


def _msgspec(now: datetime) -> None:
    import msgspec

    class A(msgspec.Struct):
        t: datetime
        d: date

    assert msgspec.json.decode(msgspec.json.encode(A(now, now.date())), type=A).t == now


def _nltk(now: datetime) -> None:
    import nltk
    from nltk.tokenize import wordpunct_tokenize

    assert wordpunct_tokenize("a b.") == ["a", "b", "."]
    assert nltk.classify.NaiveBayesClassifier.train([({"a": 1}, "x")]).classify({"a": 1}) == "x"


def _numba(now: datetime) -> None:
    import random

    import numba
    import numpy as np

    @numba.njit
    def draw():
        return random.random() + np.random.rand()

    assert 0 < draw() < 2


def _numexpr(now: datetime) -> None:
    import numexpr
    import numpy

    assert numexpr.evaluate("a + 1", {"a": numpy.ones(3)}).sum() == 6


def _numpy(now: datetime) -> None:
    import numpy as np

    assert np.array([now.replace(tzinfo=None)], "datetime64[us]").astype(object)[0] == now.replace(tzinfo=None)
    assert 0 <= np.random.rand() < 1
    assert np.random.default_rng().random() < 1


def _openai(now: datetime) -> None:
    import openai

    assert openai.OpenAI(api_key="k").chat.completions
    from openai._base_client import platform_headers

    assert platform_headers("1", platform=None)


def _pandas(now: datetime) -> None:
    import pandas as pd

    f = pd.DataFrame({"t": [now, pd.NaT], "d": [date.today(), None]})
    assert f.t[0] == now
    assert isinstance(pd.Timestamp.now(), datetime)
    assert f.t.dt.date[0] == now.date()
    assert len(pd.date_range("2020", periods=3)) == 3
    assert f.sample(1, random_state=1).shape == (1, 2)


def _peewee(now: datetime) -> None:
    import peewee

    d = peewee.SqliteDatabase(":memory:")

    class A(peewee.Model):
        t = peewee.DateTimeField(default=datetime.now)

        class Meta:
            database = d

    d.create_tables([A])
    assert A.create().t <= datetime.now()
    assert isinstance(A.get().t, datetime)
    d.close()


def _pendulum(now: datetime) -> None:
    import pendulum

    assert abs(pendulum.now("UTC") - now).total_seconds() < 5
    assert pendulum.parse("2020-01-02").year == 2020


def _pillow(now: datetime) -> None:
    from PIL import Image

    b = io.BytesIO()
    Image.new("RGB", (2, 2)).save(b, "PDF")
    assert b.getvalue()


def _polars(now: datetime) -> None:
    import polars as pl

    f = pl.DataFrame({"t": [now, None], "d": [date.today(), date(2020, 1, 2)]})
    assert f["t"][0] == now
    assert f["d"].dtype == pl.Date
    assert f.filter(pl.col("d") <= date.today()).height == 2
    assert pl.select(pl.lit(now)).item() == now


def _protobuf(now: datetime) -> None:
    from google.protobuf.timestamp_pb2 import Timestamp

    t = Timestamp()
    t.FromDatetime(now)
    assert t.ToDatetime(UTC) == now
    t.GetCurrentTime()
    assert t.seconds > 0


def _pyarrow(now: datetime) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    t = pa.table({"t": [now, None], "d": [date.today(), None]})
    assert t["t"][0].as_py() == now
    assert pc.year(t["d"])[0].as_py() == date.today().year
    assert pa.scalar(now).as_py() == now


def _pydantic(now: datetime) -> None:
    import pydantic

    class A(pydantic.BaseModel):
        t: datetime
        d: date

    assert A.model_validate_json(A(t=now, d=now.date()).model_dump_json()).t == now


def _python_dateutil(now: datetime) -> None:
    from dateutil import parser, rrule

    assert parser.parse("10:00").tzinfo is None
    assert list(rrule.rrule(rrule.DAILY, count=2, dtstart=now))[1].date() == (now + timedelta(1)).date()


def _pyzmq(now: datetime) -> None:
    import zmq

    c = zmq.Context()
    a, b = c.socket(zmq.PAIR), c.socket(zmq.PAIR)
    a.bind("inproc://x")
    b.connect("inproc://x")
    a.send(b"y")
    assert b.recv() == b"y"
    a.close()
    b.close()
    c.term()


def _qdrant_client(now: datetime) -> None:
    from qdrant_client import QdrantClient
    from qdrant_client import models as m

    c = QdrantClient(":memory:")
    c.create_collection("c", vectors_config=m.VectorParams(size=2, distance=m.Distance.DOT))
    c.upsert("c", [m.PointStruct(id=1, vector=[1.0, 0.0])])
    assert c.count("c").count == 1


def _rich(now: datetime) -> None:
    import rich.console

    c = rich.console.Console(file=io.StringIO())
    c.log("x")
    assert "x" in c.file.getvalue()


def _ruamel_yaml(now: datetime) -> None:
    import ruamel.yaml

    y = ruamel.yaml.YAML(typ="safe")
    b = io.StringIO()
    y.dump({"d": date(2020, 1, 2)}, b)
    assert y.load(b.getvalue()) == {"d": date(2020, 1, 2)}


def _scikit_learn(now: datetime) -> None:
    import numpy as np
    from sklearn.cluster import KMeans
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import train_test_split

    x = np.arange(20.0).reshape(-1, 1)
    train, test = train_test_split(x)
    assert LinearRegression().fit(train, train).score(test, test) > 0.99
    assert KMeans(2, n_init=1).fit(x).labels_.size == 20


def _scipy(now: datetime) -> None:
    from scipy import optimize, stats

    assert abs(optimize.minimize_scalar(lambda x: x * x).x) < 1e-6
    assert stats.norm.rvs(random_state=1)


def _sqlalchemy(now: datetime) -> None:
    import sqlalchemy as sa
    from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

    class Base(DeclarativeBase):
        pass

    class A(Base):
        __tablename__ = "a"
        id: Mapped[int] = mapped_column(primary_key=True)
        t: Mapped[datetime] = mapped_column(default=datetime.now)
        d: Mapped[date] = mapped_column(default=date.today)

    e = sa.create_engine("sqlite://")
    Base.metadata.create_all(e)
    with Session(e) as s:
        s.add(A())
        s.flush()
        a = s.scalars(sa.select(A)).one()
        s.refresh(a)
        assert a.t <= datetime.now() and a.d == date.today()
    e.dispose()


def _sqlmodel(now: datetime) -> None:
    import sqlmodel

    A = type("A", (sqlmodel.SQLModel,), {"__annotations__": {"t": datetime, "i": uuid.UUID}, "__module__": "a"})
    assert A(t=now, i=uuid.uuid4()).t == now


def _statsmodels(now: datetime) -> None:
    import numpy as np
    import statsmodels.api as sm

    assert sm.OLS(np.arange(9.0), np.arange(9.0)).fit().params[0] > 0.9


def _tables(now: datetime) -> None:
    import numpy
    import tables

    p = Path(tempfile.mkdtemp()) / "x.h5"
    with tables.open_file(p, "w") as f:
        f.create_array("/", "x", numpy.ones(2))
        assert f.root.x[1] == 1


def _time_machine(now: datetime) -> None:
    import time_machine

    with time_machine.travel("2020-01-02", tick=False):
        assert date.today() == date(2020, 1, 2)
        assert time.gmtime().tm_year == 2020
    assert date.today().year > 2020


def _tokenizers(now: datetime) -> None:
    from tokenizers import Tokenizer, models

    assert Tokenizer(models.WordLevel({"a": 0}, unk_token="a")).encode("a").ids == [0]


def _torch(now: datetime) -> None:
    import torch

    assert torch.tensor([1.0, 2.0]).sum().item() == 3
    m = torch.nn.Linear(2, 1)
    m(torch.ones(1, 2)).sum().backward()
    torch.optim.Adam(m.parameters()).step()
    assert len(list(torch.utils.data.DataLoader([1, 2, 3], shuffle=True))) == 3


def _typer(now: datetime) -> None:
    import typer
    from typer.testing import CliRunner

    a = typer.Typer()

    @a.command()
    def f(t: datetime):
        print(t.year)

    assert CliRunner().invoke(a, ["2020-01-02"]).output.strip() == "2020"


def _uvloop(now: datetime) -> None:
    import uvloop

    async def run():
        await asyncio.sleep(0.001)
        return 1

    assert uvloop.run(run()) == 1


def _whenever(now: datetime) -> None:
    import whenever

    assert whenever.Instant.now()
    assert whenever.Instant(now).to_stdlib() == now


def _xarray(now: datetime) -> None:
    import numpy as np
    import pandas as pd
    import xarray as xr

    a = xr.DataArray(np.arange(3), coords={"t": pd.date_range("2020", periods=3)}, dims="t")
    assert a.sel(t="2020-01-02").item() == 1
    assert (a.t.dt.year == 2020).all()


def _once(module: str, use: Callable[[Any, datetime], Any]) -> Callable[[datetime], None]:
    def imported_and_used(now: datetime) -> None:
        assert use(import_module(module), now)

    return imported_and_used


PACKAGES = {
    "ruamel.yaml" if use is _ruamel_yaml else name[1:].replace("_", "-"): use
    for name, use in list(globals().items())
    if name.startswith("_") and name != "_once" and getattr(use, "__module__", None) == __name__
} | {name: _once(*use) for name, use in USES.items()}
"""What uses a distribution, by its name."""
