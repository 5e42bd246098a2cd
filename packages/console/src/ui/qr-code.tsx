// Its types have the default export only.
// oxlint-disable-next-line import/no-named-as-default
import qrcode from "qrcode-generator";
import { useMemo } from "react";

/** Modules of white around the code, which readers need. */
const MARGIN = 4;

export function QrCode({ text }: { text: string }) {
  const { size, path } = useMemo(() => {
    const code = qrcode(0, "M");
    code.addData(text);
    code.make();
    const count = code.getModuleCount();
    let squares = "";
    for (let row = 0; row < count; row++)
      for (let column = 0; column < count; column++)
        if (code.isDark(row, column)) squares += `M${column + MARGIN},${row + MARGIN}h1v1h-1z`;
    return { size: count + 2 * MARGIN, path: squares };
  }, [text]);
  return (
    <svg
      width="160"
      height="160"
      viewBox={`0 0 ${size} ${size}`}
      role="img"
      aria-label={`QR code of ${text}`}
    >
      <rect width={size} height={size} fill="#fff" />
      <path d={path} fill="#000" />
    </svg>
  );
}
