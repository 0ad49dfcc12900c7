/** What an approval may allow beside its own call: what the call touches, ready to be chosen, or a scope of one's own. */
import { make, plain, texts } from "./holdfast-element.js";

const LEVELS = ["read", "write", "execute", "admin"];
const KINDS = ["tool", "path", "domain", "command"];
const MOST_KIND = 32;
const MOST_PATTERN = 256;
const LASTS = [900, 3600, 28800, 86400, 604800]; // seconds
const FIRST = 3600;
const SPECIAL = /[*?[\]{}\\]/g;

/** The fields that an error of the server may be about, by the field that it names. */
const PLACES = { "scope.kind": "kind", "scope.pattern": "pattern", "scope.level": "level", "scope.ends_s": "lasts" };

/**
 * @param {object} call A call that waits for an approval.
 * @param {(scope: object) => void} give What approves the call with a scope.
 * @returns {{node: HTMLElement, refused: (error: Error) => boolean}} `refused` shows what is wrong, beside its field.
 */
export function scopeOf(call, give) {
  const id = (name) => `scope-${name}-${call.suspension_id}`;
  const targets = call.targets ?? [{ kind: "tool", value: call.tool, level: "execute" }];
  const [first = { kind: "", value: "", level: "write" }] = targets;
  const controls = {
    lasts: make(
      "select",
      { id: id("lasts") },
      ...LASTS.map((seconds) => make("option", { value: String(seconds), selected: seconds === FIRST }, texts.lastsFor[seconds])),
      make("option", { value: "" }, texts.lastsOn),
    ),
    kind: text(id("kind"), first.kind, MOST_KIND),
    pattern: text(id("pattern"), literal(first.value), MOST_PATTERN),
    level: make(
      "select",
      { id: id("level") },
      ...LEVELS.map((level) => make("option", { value: level, selected: level === first.level }, level)),
    ),
  };
  const kinds = make("datalist", { id: id("kinds") }, ...KINDS.map((kind) => make("option", { value: kind })));
  controls.kind.setAttribute("list", kinds.id);
  const everything = make("input", { type: "checkbox", id: id("everything") });
  const errors = {};
  const fieldOf = (name, label) => {
    errors[name] = make("span", { class: "error", id: `${id(name)}-error`, hidden: true });
    controls[name].setAttribute("aria-describedby", errors[name].id);
    return make("div", { class: "field" }, make("label", { htmlFor: id(name) }, label), controls[name], errors[name]);
  };
  const clear = () => {
    for (const name of Object.keys(errors)) {
      errors[name].hidden = true;
      controls[name].removeAttribute("aria-invalid");
    }
  };
  const allow = (scope) => {
    clear();
    give({ ...scope, ...(controls.lasts.value && { ends_s: Number(controls.lasts.value) }) });
  };
  const button = (name, children, click) => {
    const found = make("button", { class: `button ${name}`, type: "button" }, ...children);
    found.addEventListener("click", click);
    return found;
  };
  const ready = targets.map(({ kind, value, level }) => {
    const said = make("code", {}, plain(value));
    const children = kind === "tool" ? [`${texts.allCalls} `, said] : [`${texts.fromNow} `, said, ` (${plain(kind)}, ${plain(level)})`];
    return button("ready", children, () => allow({ kind, pattern: literal(value), level }));
  });
  const own = make(
    "details",
    { class: "own", open: targets.length === 0 },
    make("summary", {}, texts.otherScope),
    make(
      "div",
      { class: "scope" },
      fieldOf("kind", texts.scopeKind),
      kinds,
      fieldOf("pattern", texts.scopePattern),
      fieldOf("level", texts.scopeLevel),
      make("label", { class: "choice", htmlFor: everything.id }, everything, texts.scopeEverything),
      make(
        "div",
        { class: "actions" },
        button("allow-this", [texts.allowThis], () => {
          const [kind, pattern, level] = [controls.kind.value, controls.pattern.value, controls.level.value];
          allow({ kind, pattern, level, ...(everything.checked && { everything: true }) });
        }),
      ),
    ),
  );
  const node = make(
    "details",
    { class: "later" },
    make("summary", {}, texts.later),
    make(
      "div",
      { class: "scope" },
      make("p", { class: "hint" }, texts.laterHint),
      fieldOf("lasts", texts.lasts),
      ready.length ? make("div", { class: "actions" }, ...ready) : make("p", { class: "hint" }, texts.untold),
      own,
    ),
  );
  return {
    node,
    blamed(error) {
      const name = PLACES[error?.fields?.field];
      if (name === undefined) return false;
      errors[name].textContent = plain(error.message);
      errors[name].hidden = false;
      controls[name].setAttribute("aria-invalid", "true");
      node.open = true;
      if (name !== "lasts") own.open = true;
      return true;
    },
  };
}

function text(id, value, maxLength) {
  return make("input", { type: "text", id, value, maxLength, autocomplete: "off", spellcheck: false, dir: "auto" });
}

/** The pattern that stands for this value alone. */
const literal = (value) => value.replace(SPECIAL, "\\$&");
