/** A form for a value of a JSON Schema: fields for what fields can say, a checked JSON box for the rest. The server judges. */
import { make, plain, shown, texts } from "./holdfast-element.js";
import { parsed, written } from "./holdfast-json.js";

const MOST_FIELDS = 40;
const MOST_CHOICES = 200;
const FEW_CHOICES = 6;
const MOST_DEPTH = 8; // of references
const LONGEST_LABEL = 2000;

/** A value that cannot be sent as it was written. */
class Unfit extends Error {}

/** What is left out of an object. */
const ABSENT = Symbol("absent");

/**
 * @param {unknown} schema A JSON Schema; without one, any text will do.
 * @param {string} label What the value is, for those who do not see the form.
 * @param {string[]} [order] The names of an object's properties, in the order of their fields: that of numbers is lost in JSON.
 * @returns {{node: HTMLElement, read: () => {ok: boolean, value?: unknown}, blame: (name: string, problem: string) => boolean}}
 *   `read` shows what is wrong, beside its field; `blame` shows there what somebody else says is wrong, if there is such a field.
 */
export function formOf(schema, label, order) {
  const options = { label, required: true, root: schema, inside: false, order };
  const found = fieldOf(resolved(schema ?? { type: "string" }, schema), options);
  return {
    node: found.node,
    blame: (name, problem) => (order && found.blame ? found.blame(name, problem) : false),
    read() {
      try {
        return { ok: true, value: found.read() };
      } catch (error) {
        if (error instanceof Unfit) return { ok: false };
        throw error;
      }
    },
  };
}

function fieldOf(schema, options) {
  if (schema === true || (isObject(schema) && !Object.keys(schema).some((key) => !["title", "description"].includes(key)))) {
    return textField({ ...schema }, options);
  }
  if (!isObject(schema)) return jsonField(schema, options);
  if (Array.isArray(schema.enum)) {
    const few = schema.enum.length > 0 && schema.enum.length <= MOST_CHOICES;
    return few
      ? choiceField(
          schema.enum.map((value) => [value, choiceText(value)]),
          schema,
          options,
        )
      : jsonField(schema, options);
  }
  const { type, nullable } = typeOf(schema, options.root);
  const inner = { ...options, required: options.required && !nullable };
  switch (type) {
    case "string":
      return textField(schema, inner);
    case "number":
    case "integer":
      return numberField(schema, type, inner);
    case "boolean":
      return choiceField(
        [
          [true, texts.yes],
          [false, texts.no],
        ],
        schema,
        inner,
      );
    case "array":
      return arrayField(schema, inner);
    case "object":
      return options.inside || nullable ? jsonField(schema, options) : objectField(schema, inner);
    default:
      return jsonField(schema, options);
  }
}

/** Put a control under its label, with a place for what is wrong with it. */
function field({ schema, options, controls, group = false, hint, read }) {
  const error = make("span", { class: "error", id: id(), hidden: true });
  const [first] = controls.flatMap((node) =>
    node.matches("input, textarea, select") ? [node] : [...node.querySelectorAll("input")],
  );
  const name = plain(schema?.title ?? options.label).slice(0, LONGEST_LABEL);
  const said = [hint, schema?.description]
    .filter((text) => typeof text === "string" && text)
    .map((text) => plain(text).slice(0, 1000));
  const label = options.required || !options.inside ? name : `${name} (${texts.optional})`;
  const detail = said.length ? make("span", { class: "hint", id: id() }, said.join(" ")) : null;
  const described = [detail?.id, error.id].filter(Boolean).join(" ");
  let node;
  if (group) {
    node = make(
      "fieldset",
      { class: "field", "aria-describedby": described },
      make("legend", {}, label),
      ...controls,
      detail,
      error,
    );
  } else {
    first.id = id();
    first.setAttribute("aria-describedby", described);
    node = make("div", { class: "field" }, make("label", { htmlFor: first.id }, label), ...controls, detail, error);
  }
  if (options.required) first?.setAttribute("aria-required", "true");
  const blame = (problem) => {
    error.textContent = plain(problem);
    error.hidden = false;
    first?.setAttribute("aria-invalid", "true");
    first?.focus();
  };
  return {
    node,
    blame,
    read() {
      try {
        const value = read();
        error.hidden = true;
        first?.removeAttribute("aria-invalid");
        return value;
      } catch (problem) {
        if (!(problem instanceof Unfit)) throw problem;
        blame(problem.message);
        throw problem;
      }
    },
  };
}

/** What an empty field means. */
function nothing(options) {
  if (options.required) throw new Unfit(texts.needed);
  return options.leftOut ? ABSENT : null;
}

function textField(schema, options) {
  const long = !options.inside && !(schema.maxLength <= 120);
  const types = { email: "email", uri: "url", date: "date", time: "text" };
  const control = long ? make("textarea", { rows: 2 }) : make("input", { type: types[schema.format] ?? "text" });
  control.dir = "auto";
  if (schema.maxLength >= 0) control.maxLength = Math.min(schema.maxLength, 1 << 20);
  if (typeof schema.default === "string") control.value = schema.default;
  const read = () => {
    if (control.value || (options.required && schema.minLength === 0)) return control.value;
    return nothing(options);
  };
  return field({ schema, options, controls: [control], read });
}

function numberField(schema, type, options) {
  const control = make("input", { type: "text", inputMode: type === "integer" ? "numeric" : "decimal", autocomplete: "off" });
  if (typeof schema.default === "number") control.value = String(schema.default);
  const bounds = [
    ["≥", schema.minimum],
    [">", schema.exclusiveMinimum],
    ["≤", schema.maximum],
    ["<", schema.exclusiveMaximum],
  ];
  const hint = bounds.flatMap(([sign, bound]) => (typeof bound === "number" ? [`${sign} ${bound}`] : [])).join(", ");
  const read = () => {
    const text = control.value.trim();
    if (!text) return nothing(options);
    const value = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : NaN;
    if (type === "integer" && !Number.isSafeInteger(value)) throw new Unfit(texts.noInteger);
    if (!Number.isFinite(value)) throw new Unfit(texts.noNumber);
    return value;
  };
  return field({ schema, options, controls: [control], hint, read });
}

function choiceField(choices, schema, options) {
  const preset = choices.findIndex(([value]) => written(value) === written(schema.default));
  if (choices.length > FEW_CHOICES) {
    const items = choices.map(([, text], place) => make("option", { value: String(place), selected: place === preset }, text));
    const control = make("select", {}, make("option", { value: "" }, texts.choose), ...items);
    const read = () => (control.value === "" ? nothing(options) : choices[Number(control.value)][0]);
    return field({ schema, options, controls: [control], read });
  }
  const name = id();
  const buttons = choices.map((_, place) =>
    make("input", { type: "radio", name, value: String(place), checked: place === preset }),
  );
  const controls = choices.map(([, text], place) =>
    make("label", { class: "choice" }, buttons[place], make("span", { dir: "auto" }, text)),
  );
  const read = () => {
    const place = buttons.findIndex((button) => button.checked);
    return place < 0 ? nothing(options) : choices[place][0];
  };
  return field({ schema, options, controls, group: true, read });
}

function arrayField(schema, options) {
  const items = resolved(schema.items, options.root);
  if (Array.isArray(items?.enum) && items.enum.length <= MOST_CHOICES) {
    const preset = Array.isArray(schema.default) ? schema.default.map((value) => written(value)) : [];
    const boxes = items.enum.map((value) => make("input", { type: "checkbox", checked: preset.includes(written(value)) }));
    const controls = boxes.map((box, place) =>
      make("label", { class: "choice" }, box, make("span", { dir: "auto" }, choiceText(items.enum[place]))),
    );
    const read = () => {
      const found = items.enum.filter((_, place) => boxes[place].checked);
      return schema.minItems > 0 && !found.length ? nothing({ ...options, required: true }) : found;
    };
    return field({ schema, options, controls, group: true, read });
  }
  if (!isObject(items) || items.type !== "string") return jsonField(schema, options);
  const control = make("textarea", { rows: 3, dir: "auto" });
  if (Array.isArray(schema.default)) control.value = schema.default.filter((one) => typeof one === "string").join("\n");
  const read = () => control.value.split("\n").filter((line) => line.trim());
  return field({ schema, options, controls: [control], hint: texts.perLine, read });
}

function objectField(schema, options) {
  const known = isObject(schema.properties) ? schema.properties : {};
  const names = (options.order ?? Object.keys(known)).filter((name) => Object.hasOwn(known, name));
  const properties = names.map((name) => [name, known[name]]);
  if (!properties.length || properties.length > MOST_FIELDS) return jsonField(schema, options);
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const fields = properties.map(([name, one]) => {
    const needed = required.has(name);
    const inner = { label: name, required: needed, leftOut: !needed, root: options.root, inside: true };
    return [name, fieldOf(resolved(one, options.root), inner)];
  });
  const node = make("fieldset", { class: "field" }, make("legend", {}, plain(schema.title ?? options.label).slice(0, 200)));
  node.append(...fields.map(([, one]) => one.node));
  return {
    node,
    blame(name, problem) {
      const found = fields.find(([key]) => key === name)?.[1];
      found?.blame?.(problem);
      return Boolean(found?.blame);
    },
    read() {
      const found = [];
      let unfit = null;
      for (const [name, one] of [...fields].reverse()) {
        try {
          const value = one.read();
          if (value !== ABSENT) found.unshift([name, value]);
        } catch (error) {
          if (!(error instanceof Unfit)) throw error;
          unfit = error; // the first of them has the focus in the end
        }
      }
      if (unfit !== null) throw unfit;
      return Object.fromEntries(found);
    },
  };
}

function jsonField(schema, options) {
  const control = make("textarea", { rows: 4, spellcheck: false, autocapitalize: "off" });
  if (isObject(schema) && schema.default !== undefined) control.value = written(schema.default, 2);
  const hint = `${texts.json}: ${shown(schema).replace(/\s+/g, " ").slice(0, 400)}`;
  const read = () => {
    if (!control.value.trim()) return nothing(options);
    const value = parsed(control.value);
    if (value === undefined) throw new Unfit(texts.noJson);
    return value;
  };
  return field({
    schema: { title: schema?.title, description: schema?.description },
    options,
    controls: [control],
    hint,
    read,
  });
}

/** The one type of a schema beside null; undefined where there are several. */
function typeOf(schema, root) {
  const types = Array.isArray(schema.type) ? schema.type : [schema.type];
  const others = types.filter((type) => type !== "null");
  const among = ["anyOf", "oneOf", "allOf", "not", "const", "$ref", "if"].some((key) => key in schema);
  return { type: others.length === 1 && !among ? others[0] : undefined, nullable: types.length > others.length, root };
}

/** A schema with what it refers to, and without the "or null" that stands around it. */
function resolved(schema, root, depth = 0) {
  let found = schema;
  for (; depth < MOST_DEPTH && isObject(found); depth++) {
    if (typeof found.$ref === "string" && found.$ref.startsWith("#/")) {
      const { $ref, ...beside } = found;
      const target = $ref
        .slice(2)
        .split("/")
        .reduce((at, name) => (isObject(at) && Object.hasOwn(at, name) ? at[name] : undefined), root);
      if (!isObject(target)) return schema;
      found = { ...target, ...beside };
    } else if (Array.isArray(found.anyOf) && found.anyOf.length === 2 && found.anyOf.some((one) => one?.type === "null")) {
      const { anyOf, ...beside } = found;
      const other = anyOf.find((one) => one?.type !== "null");
      const inner = resolved(other, root, depth + 1);
      if (!isObject(inner) || typeof inner.type !== "string" || inner.enum) return schema;
      found = { ...inner, ...beside, type: [inner.type, "null"] };
    } else break;
  }
  return found;
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const choiceText = (value) => (typeof value === "string" ? plain(value) : shown(value)).slice(0, 300);

let drawn = 0;
function id() {
  return `holdfast-${++drawn}`;
}
