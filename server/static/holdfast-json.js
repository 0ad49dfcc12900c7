/**
 * JSON in which integers keep all their digits: those that a number cannot hold are BigInts, if the browser gives a parser the
 * digits (Chromium 114, Firefox 135, Safari 18.4). So a person sees the exact arguments that will be used.
 */

/** The value of a JSON text; undefined for any other text. */
export function parsed(text) {
  try {
    return JSON.parse(text, exact);
  } catch {
    return undefined;
  }
}

/** The JSON text of a value; undefined if it has none. */
export function written(value, indent) {
  return JSON.stringify(value, (_, one) => (typeof one === "bigint" && JSON.rawJSON ? JSON.rawJSON(String(one)) : one), indent);
}

function exact(_, value, context) {
  const cut = typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "");
  return cut ? BigInt(context.source) : value;
}
