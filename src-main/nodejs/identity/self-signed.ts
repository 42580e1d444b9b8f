/**
 * A new ECDSA P-256 key and a certificate that it signed itself. Members are pinned by the key, so the
 * certificate states nothing but the key and never expires (RFC 5280, 4.1.2.5: no well-defined expiry).
 * P-256 and not Ed25519: the TLS library in Electron negotiates no Ed25519 certificates.
 * @param now epoch ms, becomes the start of validity
 */
export async function createSelfSigned(now: number): Promise<{ keyPem: string; certPem: string }> {
  // Loaded only here: a node needs it once in its life. The first is what the second requires to be there.
  await import('reflect-metadata');
  const x509 = await import('@peculiar/x509');
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
  const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const serial = crypto.getRandomValues(new Uint8Array(16));
  // Positive and without a leading zero byte, so that its length is fixed.
  serial[0] = ((serial[0] ?? 0) & 0x3f) | 0x40;
  const certificate = await x509.X509CertificateGenerator.createSelfSigned(
    {
      serialNumber: Buffer.from(serial).toString('hex'),
      name: 'CN=covey',
      notBefore: new Date(now),
      notAfter: new Date('9999-12-31T23:59:59Z'),
      signingAlgorithm: algorithm,
      keys,
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([
          x509.ExtendedKeyUsage.serverAuth,
          x509.ExtendedKeyUsage.clientAuth,
        ]),
      ],
    },
    crypto,
  );
  const pkcs8 = Buffer.from(await crypto.subtle.exportKey('pkcs8', keys.privateKey)).toString('base64');
  const lines = pkcs8.match(/.{1,64}/g) ?? [];
  return {
    keyPem: `-----BEGIN PRIVATE KEY-----\n${lines.join('\n')}\n-----END PRIVATE KEY-----\n`,
    certPem: `${certificate.toString('pem').trim()}\n`,
  };
}
