/** IPv4 and IPv6 addresses and CIDR ranges. Compared in binary, because spellings vary. */

const V4_MAPPED = 0xffffn << 32n;

/** IPv4 is mapped to `::ffff:a.b.c.d`. Undefined if the text is malformed or host bits are set. */
export function parseIpRange(text: string): { bits: bigint; prefix: number } | undefined {
  const [address = "", length, extra] = text.split("/");
  if (extra !== undefined) return undefined;
  const bits = parseIp(address);
  if (bits === undefined) return undefined;
  const width = address.includes(":") ? 128 : 32;
  if (length === undefined) return { bits, prefix: 128 };
  if (!/^(0|[1-9]\d{0,2})$/.test(length) || Number(length) > width) return undefined;
  const prefix = Number(length) + (128 - width);
  const host = (1n << BigInt(128 - prefix)) - 1n;
  return (bits & host) === 0n ? { bits, prefix } : undefined;
}

/** Whether it says little about who calls: wider than an IPv4 /8 or an IPv6 /16. */
export function isWide(text: string): boolean {
  const range = parseIpRange(text);
  if (range === undefined) return false;
  const { bits, prefix } = range;
  const rest = BigInt(128 - Math.min(prefix, 96));
  return prefix < (bits >> rest === V4_MAPPED >> rest ? 96 + 8 : 16);
}

export function ipAllowed(ip: string | undefined, ranges: readonly string[] | null): boolean {
  if (ranges === null) return true;
  const bits = parseIp(ip);
  if (bits === undefined) return false;
  return ranges.some((text) => {
    const range = parseIpRange(text);
    return (
      range !== undefined &&
      bits >> BigInt(128 - range.prefix) === range.bits >> BigInt(128 - range.prefix)
    );
  });
}

/**
 * The key of limits by address: an IPv4 address or an IPv6 /64, because one customer usually has a
 * whole /64. Digits are padded, so no key is a prefix of another and the first twelve of a /64 are
 * its /48.
 */
export function networkOf(ip: string | undefined): string {
  const bits = parseIp(ip);
  if (bits === undefined) return "unknown";
  return bits >> 32n === 0xffffn
    ? `v4:${(bits & 0xffffffffn).toString(16).padStart(8, "0")}`
    : `v6:${(bits >> 64n).toString(16).padStart(16, "0")}`;
}

/** The IPv4 /24 or IPv6 /48, a prefix of `networkOf`. Undefined if `ip` is no address. */
export function widerNetworkOf(ip: string | undefined): string | undefined {
  const network = networkOf(ip);
  // Four bits a digit, after `v4:` or `v6:`.
  return network === "unknown"
    ? undefined
    : network.slice(0, 3 + (network.startsWith("v4:") ? 24 : 48) / 4);
}

/** The /48 of an IPv6 address, a prefix of `networkOf`. Undefined for IPv4. */
export function blockOf(ip: string | undefined): string | undefined {
  return networkOf(ip).startsWith("v6:") ? widerNetworkOf(ip) : undefined;
}

function parseIp(text = ""): bigint | undefined {
  if (text.includes(":")) return parseV6(text);
  const v4 = parseV4(text);
  return v4 === undefined ? undefined : V4_MAPPED | v4;
}

function parseV4(text: string): bigint | undefined {
  const parts = text.split(".");
  if (
    parts.length !== 4 ||
    !parts.every((part) => /^(0|[1-9]\d{0,2})$/.test(part) && Number(part) <= 255)
  )
    return undefined;
  return parts.reduce((bits, part) => (bits << 8n) | BigInt(part), 0n);
}

function parseV6(text: string): bigint | undefined {
  const halves = text.split("::");
  if (halves.length > 2) return undefined;
  const head = groupsOf(halves[0] ?? "");
  const tail = halves.length === 2 ? groupsOf(halves[1] ?? "") : [];
  if (head === undefined || tail === undefined) return undefined;
  const missing = 8 - head.length - tail.length;
  if (halves.length === 2 ? missing < 1 : missing !== 0) return undefined;
  const groups = [...head, ...Array.from({ length: missing }, () => 0n), ...tail];
  return groups.reduce((bits, group) => (bits << 16n) | group, 0n);
}

/** The 16-bit groups. The last two may be written as an IPv4 address. */
function groupsOf(text: string): bigint[] | undefined {
  if (text === "") return [];
  const groups: bigint[] = [];
  const parts = text.split(":");
  for (const [index, part] of parts.entries()) {
    const v4 = index === parts.length - 1 && part.includes(".") ? parseV4(part) : undefined;
    if (v4 !== undefined) groups.push(v4 >> 16n, v4 & 0xffffn);
    else if (/^[0-9a-fA-F]{1,4}$/.test(part)) groups.push(BigInt(`0x${part}`));
    else return undefined;
  }
  return groups;
}
