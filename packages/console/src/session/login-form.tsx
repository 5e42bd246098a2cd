/** The password, and a code of the authenticator app once the service has asked for one. */
import { Problem } from "@rfq-custody/client";
import { type ReactNode, useState } from "react";
import { CodeField, Form, type FormValues, PasswordField } from "../ui/form.tsx";

type LoginFormProps = {
  label: string;
  action: string;
  submit: (values: FormValues) => Promise<void>;
  children?: ReactNode;
};

export function LoginForm({ submit, children, ...form }: LoginFormProps) {
  const [needsCode, setNeedsCode] = useState(false);
  const logIn = (values: FormValues) =>
    submit(values).catch((error: unknown) => {
      if (error instanceof Problem && error.code.startsWith("totp_")) setNeedsCode(true);
      throw error;
    });
  return (
    <Form {...form} submit={logIn}>
      {children}
      <PasswordField />
      {needsCode ? <CodeField recovery /> : null}
    </Form>
  );
}
