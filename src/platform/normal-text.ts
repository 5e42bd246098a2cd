/** Texts that people read and compare by eye: titles, outcomes, labels, emails, reasons. */

/** Letters that no screen shows, or that look like a space. Some of them reorder or break lines. */
export const HIDDEN =
  /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u{2800}\u{16fe4}\u{1d159}]/u;

/**
 * One spelling for what looks the same: NFKC, and one space between words. Undefined if a letter is
 * hidden. Letters of different alphabets that look alike stay different.
 */
export function normalText(given: string): string | undefined {
  const text = given
    .normalize("NFKC")
    .replace(/\p{Zs}+/gu, " ")
    .replace(/^ | $/g, "");
  return HIDDEN.test(text) ? undefined : text;
}

/** The key by which texts are compared and searched: without the difference of capitals. */
export function foldText(given: string): string {
  // ß and SS, or the sigma at the end of a word and another one, are one letter in capitals only.
  const text = given.normalize("NFKC").toUpperCase().toLowerCase().normalize("NFKC");
  return normalText(text) ?? text;
}
