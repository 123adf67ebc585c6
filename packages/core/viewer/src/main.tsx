import { render } from "preact";
import { App } from "./app";
import { readPage } from "./data";

const place = document.getElementById("viewer");
if (place) render(<App page={readPage()} />, place);
