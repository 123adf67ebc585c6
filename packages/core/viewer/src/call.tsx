// A call: its request and its outcome.

import { isMapping, unwrapped, type Mapping, type Plain, type Recorded } from "./data";
import { Arguments, Documents, documentsOf, Message, ToolCall } from "./messages";
import type { Shown } from "./route";
import { Stream } from "./stream";
import { count, plain } from "./text";
import { Section, Text, Value } from "./value";

export function Call({ page, which, record, other, row }: Shown) {
  const request = page.records[which]?.request(record) ?? {};
  const others = other ? page.records[1 - which]?.request(other) : undefined;
  const messages = request["messages"];
  const rest = Object.entries(request).filter(([key]) => !["messages", "tools", "arguments", "name"].includes(key));
  const tools = request["tools"];
  return (
    <>
      {Array.isArray(messages) && <Conversation messages={messages} others={others?.["messages"]} record={record} side={which} />}
      {request["arguments"] !== undefined && (
        <Section title="Arguments">
          <Arguments value={request["arguments"]} other={others?.["arguments"]} side={which} />
        </Section>
      )}
      {Array.isArray(tools) && tools.length > 0 && (
        <Section title="Tools offered" note={plain(tools.map(toolName).join(", "), 120)} open={false}>
          <Value value={tools} other={others?.["tools"]} side={which} open={3} />
        </Section>
      )}
      {rest.length > 0 && (
        <Section title={messages ? "Settings" : "Request"} open={!messages}>
          <Arguments value={Object.fromEntries(rest)} other={others} side={which} />
        </Section>
      )}
      <Answer record={record} other={other} kind={row.kind} side={which} />
    </>
  );
}

function toolName(tool: Plain): string {
  const inner = isMapping(tool) && isMapping(tool["function"]) ? tool["function"] : tool;
  return isMapping(inner) ? String(inner["name"] ?? "?") : String(inner);
}

interface Talk {
  messages: Plain[];
  others: Plain | undefined;
  record: Recorded;
  side: number;
}

function Conversation({ messages, others, record, side }: Talk) {
  const fresh = record.request?.["messages"];
  const kept = record.continues === undefined ? 0 : messages.length - (Array.isArray(fresh) ? fresh.length : 0);
  const message = (each: Plain, at: number) => (
    <Message key={at} message={each} other={Array.isArray(others) ? (others[at] ?? {}) : undefined} side={side} />
  );
  const title = kept ? "New messages" : "Messages";
  return (
    <>
      {kept > 0 && (
        <Section title={kept === 1 ? "Earlier message" : "Earlier messages"} note={`${kept}, as in interaction ${record.continues}`} open={false}>
          {messages.slice(0, kept).map(message)}
        </Section>
      )}
      {kept < messages.length && <Section title={title}>{messages.slice(kept).map((each, at) => message(each, at + kept))}</Section>}
    </>
  );
}

function Answer({ record, other, kind, side }: { record: Recorded; other: Recorded | undefined; kind: string; side: number }) {
  const outcome = record.outcome;
  if (!outcome) return null;
  const cut = outcome.status === "streamed" && outcome.ended !== "exhausted" ? `the stream was ${outcome.ended}` : undefined;
  const refused = outcome.status === "refused" ? "not executed: nothing like it was recorded" : cut;
  const ended = outcome.status === "cancelled" ? "the program cancelled the call" : refused;
  return (
    <>
      <Section title={kind === "chat" || kind === "completion" ? "Answer" : "Result"} note={ended}>
        {outcome.chunks && <Stream record={record} other={other} side={side} />}
        {(outcome.status === "returned" || outcome.status === "refused") && <Returned record={record} other={other} side={side} />}
        {outcome.error && <Failure error={outcome.error} />}
      </Section>
      {outcome.effects && (
        <Section title="Effects" note={count(outcome.effects.length, "effect")} open={false}>
          <Value value={outcome.effects} other={other?.outcome?.effects} side={side} />
        </Section>
      )}
    </>
  );
}

function Returned({ record, other, side }: { record: Recorded; other: Recorded | undefined; side: number }) {
  const { text, calls } = record.read ?? {};
  const value = record.outcome?.value ?? null;
  const documents = documentsOf(value);
  if (documents) {
    const others = other ? documentsOf(other.outcome?.value) : undefined;
    return <Documents documents={documents} {...(others === undefined ? {} : { others })} side={side} />;
  }
  if (text === undefined && !calls?.length) {
    const whole = unwrapped(value);
    if (typeof whole !== "string") return <Value value={value} other={other?.outcome?.value} side={side} />;
    const counterpart = other ? unwrapped(other.outcome?.value) : undefined;
    return <Saying text={whole} other={typeof counterpart === "string" ? counterpart : undefined} side={side} />;
  }
  return (
    <>
      {text !== undefined && <Saying text={text} other={other ? (other.read?.text ?? "") : undefined} side={side} />}
      {calls?.map((call, at) => <ToolCall call={call} other={other ? (other.read?.calls?.[at] ?? null) : undefined} side={side} />)}
    </>
  );
}

function Saying(props: { text: string; other: string | undefined; side: number }) {
  return <p class="said" dir="auto"><Text {...props} /></p>;
}

export function Failure({ error }: { error: Mapping }) {
  const { type, message, bases, ...rest } = error;
  const more = Object.entries(rest).filter(([, value]) => value !== null && JSON.stringify(value).length > 2);
  return (
    <div class="failure">
      <h4>{plain(String(type).replace("builtins:", ""), 200)}</h4>
      <p class="said" dir="auto"><Text text={String(message ?? "")} /></p>
      {more.length > 0 && (
        <Section title="Details" open={false}>
          <Arguments value={{ ...Object.fromEntries(more), bases: bases ?? [] }} />
        </Section>
      )}
    </div>
  );
}
