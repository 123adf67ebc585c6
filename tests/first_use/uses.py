"""Widely used packages, and a first use of each: whatever makes them look up what a session exchanges.

Each function is called within a session that is the first to import the package, and again after it. It asserts what
must hold.
"""

import asyncio
import io
import tempfile
import time
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

PACKAGES: dict[str, Callable[[], None]] = {}
"""By the name of the distribution: the function."""


def first_use(distribution: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Keep a function as the first use of a distribution."""

    def keep(function: Callable[[], None]) -> Callable[[], None]:
        PACKAGES[distribution] = function
        return function

    return keep


@first_use("aiohttp")
def _aiohttp() -> None:
    import aiohttp

    async def run():
        async with aiohttp.ClientSession() as s:
            return s.closed

    assert asyncio.run(run()) is False


@first_use("anthropic")
def _anthropic() -> None:
    import anthropic

    assert anthropic.Anthropic(api_key="k").messages


@first_use("apscheduler")
def _apscheduler() -> None:
    now = datetime.now(UTC)
    from apscheduler.triggers.interval import IntervalTrigger

    assert IntervalTrigger(seconds=5, timezone=UTC).get_next_fire_time(now, now) > now


@first_use("arrow")
def _arrow() -> None:
    import arrow

    assert abs(arrow.utcnow().datetime - datetime.now(UTC)).seconds < 5


@first_use("asyncpg")
def _asyncpg() -> None:
    import asyncpg

    assert asyncpg.Range(1, 2).lower == 1


@first_use("attrs")
def _attrs() -> None:
    import attrs

    @attrs.define
    class A:
        t: datetime = attrs.field(factory=datetime.now)

    assert isinstance(A().t, datetime)


@first_use("bcrypt")
def _bcrypt() -> None:
    import bcrypt

    assert bcrypt.checkpw(b"x", bcrypt.hashpw(b"x", bcrypt.gensalt(4)))


@first_use("beartype")
def _beartype() -> None:
    now = datetime.now(UTC)
    from beartype import beartype

    @beartype
    def f(t: datetime) -> datetime:
        return t

    assert f(now) is now


@first_use("beautifulsoup4")
def _beautifulsoup4() -> None:
    from bs4 import BeautifulSoup

    assert BeautifulSoup("<b>x</b>", "html.parser").b.text == "x"


@first_use("boto3")
def _boto3() -> None:
    import boto3

    client = boto3.client("s3", region_name="eu-west-1", aws_access_key_id="k", aws_secret_access_key="s")
    url = client.generate_presigned_url("get_object", Params={"Bucket": "b", "Key": "k"})
    assert "Signature=" in url


@first_use("cattrs")
def _cattrs() -> None:
    now = datetime.now(UTC)
    import attrs
    from cattrs.preconf.json import make_converter

    @attrs.define
    class A:
        t: datetime

    c = make_converter()
    assert c.structure(c.unstructure(A(now)), A) == A(now)


@first_use("croniter")
def _croniter() -> None:
    now = datetime.now(UTC)
    from croniter import croniter

    assert croniter("0 0 * * *", now).get_next(datetime) > now


@first_use("cryptography")
def _cryptography() -> None:
    now = datetime.now(UTC)
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


@first_use("dask")
def _dask() -> None:
    import dask

    assert dask.delayed(sum)([1, 2]).compute(scheduler="synchronous") == 3


@first_use("dataclasses-json")
def _dataclasses_json() -> None:
    now = datetime.now(UTC)
    from dataclasses import dataclass

    from dataclasses_json import dataclass_json

    @dataclass_json
    @dataclass
    class A:
        t: datetime

    assert A.from_json(A(now).to_json()).t == now


@first_use("dateparser")
def _dateparser() -> None:
    import dateparser

    assert dateparser.parse("2 hours ago") < datetime.now()


@first_use("duckdb")
def _duckdb() -> None:
    now = datetime.now(UTC)
    import duckdb

    assert duckdb.execute("select ?::timestamptz", [now]).fetchone()[0] == now


@first_use("faiss-cpu")
def _faiss_cpu() -> None:
    import faiss
    import numpy

    i = faiss.IndexFlatL2(2)
    i.add(numpy.ones((1, 2), "float32"))
    assert i.ntotal == 1


@first_use("fastapi")
def _fastapi() -> None:
    from fastapi import FastAPI

    app = FastAPI()

    @app.get("/")
    def root(t: datetime, d: date) -> datetime:
        return t

    assert app.openapi()["paths"]


@first_use("freezegun")
def _freezegun() -> None:
    import freezegun

    with freezegun.freeze_time("2020-01-02"):
        assert date.today() == date(2020, 1, 2)
        assert time.gmtime().tm_year == 2020
    assert date.today().year > 2020


@first_use("grpcio")
def _grpcio() -> None:
    import grpc

    grpc.insecure_channel("localhost:1").close()


@first_use("h5py")
def _h5py() -> None:
    import h5py

    with h5py.File(io.BytesIO(), "w") as f:
        f["x"] = [1, 2]
        assert f["x"][1] == 2


@first_use("httpx")
def _httpx() -> None:
    import httpx

    assert httpx.Client(transport=httpx.MockTransport(lambda r: httpx.Response(204))).get("http://x").status_code == 204


@first_use("icalendar")
def _icalendar() -> None:
    now = datetime.now(UTC)
    import icalendar

    e = icalendar.Event()
    e.add("dtstart", now)
    assert b"DTSTART" in e.to_ical()


@first_use("jinja2")
def _jinja2() -> None:
    import jinja2

    assert jinja2.Template("{{ [1, 2] | random }}").render() in "12"


@first_use("lightgbm")
def _lightgbm() -> None:
    import lightgbm
    import numpy

    m = lightgbm.LGBMRegressor(n_estimators=2, verbose=-1, n_jobs=1)
    m.fit(numpy.arange(60).reshape(-1, 1), numpy.arange(60))


@first_use("lxml")
def _lxml() -> None:
    from lxml import etree

    assert etree.fromstring("<a><b/></a>")[0].tag == "b"


@first_use("marshmallow")
def _marshmallow() -> None:
    now = datetime.now(UTC)
    import marshmallow as m

    class S(m.Schema):
        t = m.fields.DateTime()

    assert S().load(S().dump({"t": now}))["t"] == now
    assert m.Schema.from_dict({"d": m.fields.Date()})()


@first_use("matplotlib")
def _matplotlib() -> None:
    now = datetime.now(UTC)
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import dates, pyplot

    pyplot.plot([now, now + timedelta(1)], [1, 2])
    pyplot.gcf().canvas.draw()
    pyplot.close("all")
    assert dates.num2date(dates.date2num(now)).date() == now.date()


@first_use("msgspec")
def _msgspec() -> None:
    now = datetime.now(UTC)
    import msgspec

    class A(msgspec.Struct):
        t: datetime
        d: date

    assert msgspec.json.decode(msgspec.json.encode(A(now, now.date())), type=A).t == now


@first_use("networkx")
def _networkx() -> None:
    import networkx as nx

    assert nx.gnp_random_graph(5, 1).number_of_edges() == 10


@first_use("nltk")
def _nltk() -> None:
    import nltk
    from nltk.tokenize import wordpunct_tokenize

    assert wordpunct_tokenize("a b.") == ["a", "b", "."]
    assert nltk.classify.NaiveBayesClassifier.train([({"a": 1}, "x")]).classify({"a": 1}) == "x"


@first_use("numba")
def _numba() -> None:
    import random

    import numba
    import numpy as np

    @numba.njit
    def draw():
        return random.random() + np.random.rand()

    assert 0 < draw() < 2


@first_use("numexpr")
def _numexpr() -> None:
    import numexpr
    import numpy

    assert numexpr.evaluate("a + 1", {"a": numpy.ones(3)}).sum() == 6


@first_use("numpy")
def _numpy() -> None:
    now = datetime.now(UTC)
    import numpy as np

    assert np.array([now.replace(tzinfo=None)], "datetime64[us]").astype(object)[0] == now.replace(tzinfo=None)
    assert 0 <= np.random.rand() < 1
    assert np.random.default_rng().random() < 1


@first_use("openai")
def _openai() -> None:
    import openai

    assert openai.OpenAI(api_key="k").chat.completions
    from openai._base_client import platform_headers

    assert platform_headers("1", platform=None)


@first_use("orjson")
def _orjson() -> None:
    now = datetime.now(UTC)
    import orjson

    assert orjson.loads(orjson.dumps([now, now.date(), uuid.uuid4()]))


@first_use("ormsgpack")
def _ormsgpack() -> None:
    now = datetime.now(UTC)
    import ormsgpack

    assert ormsgpack.unpackb(ormsgpack.packb(now))


@first_use("pandas")
def _pandas() -> None:
    now = datetime.now(UTC)
    import pandas as pd

    f = pd.DataFrame({"t": [now, pd.NaT], "d": [date.today(), None]})
    assert f.t[0] == now
    assert isinstance(pd.Timestamp.now(), datetime)
    assert f.t.dt.date[0] == now.date()
    assert len(pd.date_range("2020", periods=3)) == 3
    assert f.sample(1, random_state=1).shape == (1, 2)


@first_use("peewee")
def _peewee() -> None:
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


@first_use("pendulum")
def _pendulum() -> None:
    now = datetime.now(UTC)
    import pendulum

    assert abs(pendulum.now("UTC") - now).total_seconds() < 5
    assert pendulum.parse("2020-01-02").year == 2020


@first_use("pillow")
def _pillow() -> None:
    from PIL import Image

    b = io.BytesIO()
    Image.new("RGB", (2, 2)).save(b, "PDF")
    assert b.getvalue()


@first_use("polars")
def _polars() -> None:
    now = datetime.now(UTC)
    import polars as pl

    f = pl.DataFrame({"t": [now, None], "d": [date.today(), date(2020, 1, 2)]})
    assert f["t"][0] == now
    assert f["d"].dtype == pl.Date
    assert f.filter(pl.col("d") <= date.today()).height == 2
    assert pl.select(pl.lit(now)).item() == now


@first_use("protobuf")
def _protobuf() -> None:
    now = datetime.now(UTC)
    from google.protobuf.timestamp_pb2 import Timestamp

    t = Timestamp()
    t.FromDatetime(now)
    assert t.ToDatetime(UTC) == now
    t.GetCurrentTime()
    assert t.seconds > 0


@first_use("psycopg")
def _psycopg() -> None:
    now = datetime.now(UTC)
    from psycopg.adapt import PyFormat, Transformer

    assert Transformer().get_dumper(now, PyFormat.AUTO).dump(now)


@first_use("pyarrow")
def _pyarrow() -> None:
    now = datetime.now(UTC)
    import pyarrow as pa
    import pyarrow.compute as pc

    t = pa.table({"t": [now, None], "d": [date.today(), None]})
    assert t["t"][0].as_py() == now
    assert pc.year(t["d"])[0].as_py() == date.today().year
    assert pa.scalar(now).as_py() == now


@first_use("pydantic")
def _pydantic() -> None:
    now = datetime.now(UTC)
    import pydantic

    class A(pydantic.BaseModel):
        t: datetime
        d: date

    assert A.model_validate_json(A(t=now, d=now.date()).model_dump_json()).t == now


@first_use("pymongo")
def _pymongo() -> None:
    now = datetime.now(UTC)
    import bson

    assert bson.decode(bson.encode({"t": now, "i": bson.ObjectId()}))["t"].year == now.year


@first_use("python-dateutil")
def _python_dateutil() -> None:
    now = datetime.now(UTC)
    from dateutil import parser, rrule

    assert parser.parse("10:00").tzinfo is None
    assert list(rrule.rrule(rrule.DAILY, count=2, dtstart=now))[1].date() == (now + timedelta(1)).date()


@first_use("pyzmq")
def _pyzmq() -> None:
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


@first_use("qdrant-client")
def _qdrant_client() -> None:
    from qdrant_client import QdrantClient
    from qdrant_client import models as m

    c = QdrantClient(":memory:")
    c.create_collection("c", vectors_config=m.VectorParams(size=2, distance=m.Distance.DOT))
    c.upsert("c", [m.PointStruct(id=1, vector=[1.0, 0.0])])
    assert c.count("c").count == 1


@first_use("redis")
def _redis() -> None:
    import redis

    assert redis.Redis().connection_pool


@first_use("requests")
def _requests() -> None:
    import requests

    assert requests.Request("GET", "http://x", params={"a": 1}).prepare().url == "http://x/?a=1"


@first_use("rich")
def _rich() -> None:
    import rich.console

    c = rich.console.Console(file=io.StringIO())
    c.log("x")
    assert "x" in c.file.getvalue()


@first_use("ruamel.yaml")
def _ruamel_yaml() -> None:
    import ruamel.yaml

    y = ruamel.yaml.YAML(typ="safe")
    b = io.StringIO()
    y.dump({"d": date(2020, 1, 2)}, b)
    assert y.load(b.getvalue()) == {"d": date(2020, 1, 2)}


@first_use("scikit-learn")
def _scikit_learn() -> None:
    import numpy as np
    from sklearn.cluster import KMeans
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import train_test_split

    x = np.arange(20.0).reshape(-1, 1)
    train, test = train_test_split(x)
    assert LinearRegression().fit(train, train).score(test, test) > 0.99
    assert KMeans(2, n_init=1).fit(x).labels_.size == 20


@first_use("scipy")
def _scipy() -> None:
    from scipy import optimize, stats

    assert abs(optimize.minimize_scalar(lambda x: x * x).x) < 1e-6
    assert stats.norm.rvs(random_state=1)


@first_use("shapely")
def _shapely() -> None:
    import shapely

    assert shapely.Point(0, 0).buffer(1).area > 3


@first_use("simplejson")
def _simplejson() -> None:
    import simplejson

    assert simplejson.loads(simplejson.dumps({"a": 1})) == {"a": 1}


@first_use("spacy")
def _spacy() -> None:
    import spacy

    assert [t.text for t in spacy.blank("en")("hello world.")] == ["hello", "world", "."]


@first_use("sqlalchemy")
def _sqlalchemy() -> None:
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


@first_use("sqlmodel")
def _sqlmodel() -> None:
    now = datetime.now(UTC)
    import sqlmodel

    A = type("A", (sqlmodel.SQLModel,), {"__annotations__": {"t": datetime, "i": uuid.UUID}, "__module__": "a"})
    assert A(t=now, i=uuid.uuid4()).t == now


@first_use("statsmodels")
def _statsmodels() -> None:
    import numpy as np
    import statsmodels.api as sm

    assert sm.OLS(np.arange(9.0), np.arange(9.0)).fit().params[0] > 0.9


@first_use("sympy")
def _sympy() -> None:
    import sympy

    assert sympy.integrate("x", ("x", 0, 2)) == 2


@first_use("tables")
def _tables() -> None:
    import numpy
    import tables

    p = Path(tempfile.mkdtemp()) / "x.h5"
    with tables.open_file(p, "w") as f:
        f.create_array("/", "x", numpy.ones(2))
        assert f.root.x[1] == 1


@first_use("tiktoken")
def _tiktoken() -> None:
    import tiktoken

    assert tiktoken.Encoding("x", pat_str=".", mergeable_ranks={b"a": 0}, special_tokens={}).encode("aa")


@first_use("time-machine")
def _time_machine() -> None:
    import time_machine

    with time_machine.travel("2020-01-02", tick=False):
        assert date.today() == date(2020, 1, 2)
        assert time.gmtime().tm_year == 2020
    assert date.today().year > 2020


@first_use("tokenizers")
def _tokenizers() -> None:
    from tokenizers import Tokenizer, models

    assert Tokenizer(models.WordLevel({"a": 0}, unk_token="a")).encode("a").ids == [0]


@first_use("torch")
def _torch() -> None:
    import torch

    assert torch.tensor([1.0, 2.0]).sum().item() == 3
    m = torch.nn.Linear(2, 1)
    m(torch.ones(1, 2)).sum().backward()
    torch.optim.Adam(m.parameters()).step()
    assert len(list(torch.utils.data.DataLoader([1, 2, 3], shuffle=True))) == 3


@first_use("typer")
def _typer() -> None:
    import typer
    from typer.testing import CliRunner

    a = typer.Typer()

    @a.command()
    def f(t: datetime):
        print(t.year)

    assert CliRunner().invoke(a, ["2020-01-02"]).output.strip() == "2020"


@first_use("ujson")
def _ujson() -> None:
    import ujson

    assert ujson.loads(ujson.dumps([1])) == [1]


@first_use("uvloop")
def _uvloop() -> None:
    import uvloop

    async def run():
        await asyncio.sleep(0.001)
        return 1

    assert uvloop.run(run()) == 1


@first_use("whenever")
def _whenever() -> None:
    now = datetime.now(UTC)
    import whenever

    assert whenever.Instant.now()
    assert whenever.Instant(now).to_stdlib() == now


@first_use("xarray")
def _xarray() -> None:
    import numpy as np
    import pandas as pd
    import xarray as xr

    a = xr.DataArray(np.arange(3), coords={"t": pd.date_range("2020", periods=3)}, dims="t")
    assert a.sel(t="2020-01-02").item() == 1
    assert (a.t.dt.year == 2020).all()
