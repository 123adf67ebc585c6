// Messages, tool calls and documents of any framework.

import { isMapping, unwrapped, type Mapping, type Plain } from "./data";
import { isPicture, plain } from "./text";
import { Picture, Section, Text, Value } from "./value";

export interface Call {
  name: string;
  args: Plain;
}

/** The content of a message, in its order. */
interface Said {
  texts: { text: string; thinking: boolean }[];
  pictures: string[];
  calls: Call[];
  others: Plain[];
}

const ROLES = new Map([
  ["human", "user"],
  ["ai", "assistant"],
  ["function", "tool"],
  ["developer", "system"],
]);

export function roleOf(message: Mapping): string {
  const role = unwrapped(message["role"]) ?? message["type"];
  const word = String(Array.isArray(role) ? role[1] : (role ?? "message")).toLowerCase();
  return ROLES.get(word) ?? word;
}

function said(message: Mapping): Said {
  const told: Said = { texts: [], pictures: [], calls: [], others: [] };
  const content = message["content"] ?? message["blocks"] ?? message["text"];
  for (const block of Array.isArray(content) ? content : content === undefined || content === null ? [] : [content]) {
    read(unwrapped(block) ?? null, told);
  }
  const calls = message["tool_calls"];
  for (const call of Array.isArray(calls) ? calls : []) if (isMapping(call)) told.calls.push(callOf(call));
  return told;
}

function read(block: Plain, told: Said): void {
  if (typeof block === "string") {
    if (block) told.texts.push({ text: block, thinking: false });
    return;
  }
  if (!isMapping(block)) return void told.others.push(block);
  const type = String(block["type"] ?? block["block_type"] ?? "");
  const text = block["text"] ?? block["thinking"] ?? block["reasoning"];
  const picture = pictureOf(block);
  if (type === "tool_use" || type === "tool_call") told.calls.push(callOf(block));
  else if (typeof text === "string") told.texts.push({ text, thinking: type !== "text" && type !== "" });
  else if (picture) told.pictures.push(picture);
  else told.others.push(block);
}

function pictureOf(block: Mapping): string | null {
  const url = isMapping(block["image_url"]) ? block["image_url"]["url"] : (block["image_url"] ?? block["url"]);
  const source = isMapping(block["source"]) ? block["source"] : block;
  const data = source["data"] ?? source["base64"] ?? source["image"];
  const type = source["mime_type"] ?? source["media_type"] ?? source["image_mimetype"];
  const made = typeof data === "string" && typeof type === "string" ? `data:${type};base64,${data}` : url;
  return typeof made === "string" && isPicture(made) ? made : null;
}

function callOf(call: Mapping): Call {
  const inner = isMapping(call["function"]) ? call["function"] : call;
  const args = inner["args"] ?? inner["arguments"] ?? inner["input"] ?? inner["tool_kwargs"] ?? {};
  return { name: String(inner["name"] ?? inner["tool_name"] ?? "?"), args: parsed(args) };
}

/** Arguments that a provider sent as JSON inside a text. */
export function parsed(args: Plain): Plain {
  if (typeof args !== "string") return args;
  try {
    return JSON.parse(args) as Plain;
  } catch {
    return args; // what a model wrote need not be JSON
  }
}

interface Beside {
  other?: Plain | undefined;
  side?: number;
}

export function Message({ message, other, side = 0 }: { message: Plain } & Beside) {
  const whole = unwrapped(message);
  if (!isMapping(whole)) return <div class="message"><Value value={message} /></div>;
  const role = roleOf(whole);
  const told = said(whole);
  const counterpart = unwrapped(other);
  const others = isMapping(counterpart) ? said(counterpart) : null;
  const name = whole["name"];
  return (
    <article class={`message role-${/^[a-z]+$/.test(role) ? role : "other"}`}>
      <h4>
        {plain(role)}
        {typeof name === "string" && name && <span class="name">{plain(name)}</span>}
      </h4>
      {told.texts.map(({ text, thinking }, at) => (
        <p class={thinking ? "said thinking" : "said"} dir="auto">
          <Text text={text} other={others ? (others.texts[at]?.text ?? "") : undefined} side={side} />
        </p>
      ))}
      {told.pictures.map((source) => <Picture source={source} />)}
      {told.calls.map((call, at) => <ToolCall call={call} other={others ? (others.calls[at] ?? null) : undefined} side={side} />)}
      {told.others.map((value) => <Value value={value} open={1} />)}
    </article>
  );
}

/** A tool call; `other` is its counterpart in the other run, null if that has none. */
export function ToolCall({ call, other, side = 0 }: { call: Call; other?: Call | null | undefined; side?: number }) {
  const lacks = other === null ? (side ? " added" : " removed") : "";
  return (
    <div class={`call${lacks}`}>
      <h5>
        <span class="visually-hidden">calls </span>
        <Text text={call.name} other={other?.name} side={side} />
      </h5>
      <Arguments value={call.args} other={other?.args} side={side} />
    </div>
  );
}

export function Arguments({ value, other, side = 0 }: { value: Plain } & Beside) {
  if (!isMapping(value)) return <Value value={value} other={other} side={side} />;
  const entries = Object.entries(value);
  if (!entries.length) return <p class="nothing">no arguments</p>;
  return (
    <dl class="arguments">
      {entries.map(([key, item]) => (
        <div key={key}>
          <dt>{plain(key)}</dt>
          <dd>
            <Value value={item} other={isMapping(other) ? other[key] : undefined} side={side} open={1} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

interface Found {
  text: string;
  score: Plain | undefined;
  about: Plain | undefined;
}

/** The documents that a retriever found, if a value is a list of documents. */
export function documentsOf(value: Plain | undefined): Found[] | null {
  const items = unwrapped(value);
  if (!Array.isArray(items) || !items.length) return null;
  const found = items.map((item) => {
    const document = unwrapped(item);
    if (!isMapping(document)) return null;
    const inner = unwrapped(document["node"] ?? document) ?? null;
    const body = isMapping(inner) ? (inner["page_content"] ?? inner["text"] ?? inner["content"]) : undefined;
    const about = isMapping(inner) ? inner["metadata"] : undefined;
    return typeof body === "string" ? { text: body, score: document["score"], about } : null;
  });
  return found.every((each) => each !== null) ? found : null;
}

function inline(value: Mapping): string {
  return Object.entries(value).map(([key, item]) => `${key}=${typeof item === "string" ? item : JSON.stringify(item)}`).join(", ");
}

export function Documents({ documents, others, side = 0 }: { documents: Found[]; others?: Found[] | null; side?: number }) {
  return (
    <ol class="documents">
      {documents.map(({ text, score, about }, at) => (
        <li>
          <p class="said" dir="auto">
            <Text text={text} other={others ? (others[at]?.text ?? "") : undefined} side={side} />
          </p>
          {score !== undefined && score !== null && <p class="note">score {plain(String(score))}</p>}
          {isMapping(about) && Object.keys(about).length > 0 && (
            <Section title="Metadata" note={plain(inline(about), 100)} open={false}>
              <Arguments value={about} />
            </Section>
          )}
        </li>
      ))}
    </ol>
  );
}
